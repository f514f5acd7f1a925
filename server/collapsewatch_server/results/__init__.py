"""One transaction per result: metric points, folds in step order, alerts."""

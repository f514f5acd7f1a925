"""What is taken away: numbers as CSV and Parquet, charts as pictures, reports that open offline."""

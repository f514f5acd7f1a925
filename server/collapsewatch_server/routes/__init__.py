"""HTTP in, HTTP out: each route reads its request, calls one service and answers."""

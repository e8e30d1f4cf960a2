"""Jobs that wait and run: fair queues, worker slots and the processes behind them."""

"""Interpreters of slot-vector circuits behind one contract: plain (meaning), sim (cost), ckks (the real
thing)."""

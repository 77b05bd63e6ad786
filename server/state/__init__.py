"""`data_dir/state.db`: what must outlive every mirror."""

1:nan:0.5 | a

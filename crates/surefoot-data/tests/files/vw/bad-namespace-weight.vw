1:0:0.5 |user:two a

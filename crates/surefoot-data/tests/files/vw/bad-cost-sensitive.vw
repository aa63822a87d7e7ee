shared |User age:31
1:0.5 |Article a
2:1 |Article b

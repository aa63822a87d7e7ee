ca 12.5:0.6:0.01 |User age:31

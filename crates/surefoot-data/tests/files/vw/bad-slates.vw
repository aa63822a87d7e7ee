slates shared 0.8 |User age:31
slates action 0 |Article a
slates slot 0:0.5 |

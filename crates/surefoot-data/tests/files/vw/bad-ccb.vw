ccb shared |User age:31
ccb action |Article id=a
ccb slot 0:-1:0.5,1:0.5 |Slot top

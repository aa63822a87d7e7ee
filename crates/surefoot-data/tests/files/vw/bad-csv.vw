action,reward
1,2

// Package podctltest has the pods, statuses and times of the tests of podctl and the packages below it.
package podctltest

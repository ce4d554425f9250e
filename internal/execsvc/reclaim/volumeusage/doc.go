// Package volumeusage asks the drivers of persistent volumes how full the volumes are, once a minute for each volume that a pod has.
//
// Package stats shows the values, in /stats/summary and in the metrics of claims, and reads them without waiting for a driver.
// A volume has no value before its first answer, after an attempt that failed, while it isn't mounted, and once the last value is
// maxAge old.
//
// Meter.Run has one goroutine, and one more for each call that is under way. A driver gets at most maxCalls calls at a time, and one
// for each of its volumes. A volume whose last call took longer than slow is slow: slow volumes have at most half of the calls,
// and longer pauses while they fail, so volumes that hang don't keep the others of their driver from being measured. No driver waits
// for another one.
// All goroutines end with Run.
//
// Meter.mu protects the values. It isn't held during a call.
//
// The package reads no file, and believes no path: package storage knows where volumes are mounted.
package volumeusage

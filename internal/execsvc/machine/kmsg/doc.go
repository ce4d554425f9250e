// Package kmsg reads the kernel's log, /dev/kmsg, for the kills of the kernel's OOM killer.
//
// podexecd makes a Watcher when it starts and turns a kill for the whole machine's lack of memory into the event
// SystemOOM of the Node. Run is its only goroutine; it calls Config.OOM. Only records written after the start count.
//
// Each process that can open /dev/kmsg can write to it. The kernel gives such records the facility of a user's program,
// so records of another facility than the kernel's own are ignored. A record is bounded by the buffer, the number of
// records that are read by a rate: during a flood the kernel overwrites the oldest ones, and those are lost. The kernel
// itself writes at most ten reports of its OOM killer in five seconds.
//
// The reports are those of Linux 5.0 and later. The package decides nothing about a kill, and never writes to the log.
package kmsg

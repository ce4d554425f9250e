// Package memcg has the kernel report when the memory of a cgroup crosses a threshold. It is for cgroup v1, which
// reports it through an eventfd; version 2 has no such reports.
//
// Package eviction arms a Notifier at each of its observations, and observes at once when Ready receives a value. The
// kernel reports a crossing in both directions, and some pages late. A Notifier has one goroutine while it is armed,
// which Close ends. The package decides nothing about a threshold, and changes no setting of a cgroup.
package memcg

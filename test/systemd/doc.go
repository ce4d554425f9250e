// Package systemd runs both daemons as the units of deploy/systemd, on a systemd and a containerd of their own:
// in the guest of hack/vm. hack/vm/systemd.sh builds what it needs, and runs it; elsewhere it skips.
//
// The tests run one after the other, as they share the machine. Each leaves both units running without drop-ins.
package systemd

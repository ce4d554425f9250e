// Package systemd runs both daemons as the units of deploy/systemd, and as the containers of docker-compose.yml, on a
// systemd and a containerd of their own: in the guest of hack/vm. hack/vm/systemd.sh, storage.sh, compose.sh and
// packages.sh build what the tests need, and run them; elsewhere they skip.
//
// The tests run one after the other, as they share the machine. Each leaves both units running without drop-ins, except
// TestCompose, which disables them.
package systemd

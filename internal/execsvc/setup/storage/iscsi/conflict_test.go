package iscsi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

func login(name string) func(*v1.ISCSIPersistentVolumeSource) {
	return func(s *v1.ISCSIPersistentVolumeSource) {
		s.SessionCHAPAuth, s.SecretRef = true, &v1.SecretReference{Namespace: "ns", Name: name}
	}
}

var password = map[string]string{"node.session.auth.username": "u", "node.session.auth.password": "unspoken password"}

// TestConflicts: a disk and a session are used in one way at a time, and by the next volume when the first one is gone.
func TestConflicts(t *testing.T) {
	b := newBench(t, 1, 2)
	b.addPortal(portal2)
	b.others = map[int]string{1: loop(t)}
	b.secrets["ns/login"], b.secrets["ns/other"] = password, password
	first := pv(1, login("login"))
	for name, tc := range map[string]struct {
		lun      int32
		change   func(*v1.ISCSIPersistentVolumeSource)
		readOnly bool
		want     string
	}{
		"another file system":      {1, func(s *v1.ISCSIPersistentVolumeSource) { s.FSType = "ext3" }, false, "fsType"},
		"read-only":                {1, nil, true, "readOnly"},
		"more portals":             {1, func(s *v1.ISCSIPersistentVolumeSource) { s.Portals = []string{portal2} }, false, "list of portals"},
		"another iface":            {1, func(s *v1.ISCSIPersistentVolumeSource) { s.ISCSIInterface = "eth0" }, false, "iface"},
		"another initiator":        {1, func(s *v1.ISCSIPersistentVolumeSource) { s.InitiatorName = ptr.To(target) }, false, "iface"},
		"another Secret":           {2, login("other"), false, "another Secret"},
		"no Secret":                {2, func(s *v1.ISCSIPersistentVolumeSource) { s.SessionCHAPAuth = false }, false, "another Secret"},
		"the same by another path": {1, func(s *v1.ISCSIPersistentVolumeSource) { s.TargetPortal = portal2 }, false, "the same disk as"},
	} {
		if tc.change == nil {
			tc.change = func(*v1.ISCSIPersistentVolumeSource) {}
		}
		v := b.persistent("u1", first, false)
		b.up(v)
		other := b.persistent("u2", pv(tc.lun, login("login"), tc.change), tc.readOnly)
		err := b.Stage(t.Context(), other.Staging)
		if err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if out := storage.OutcomeOf(err); out != storage.Unrepeatable && out != storage.Final {
			t.Errorf("%s: outcome %d", name, out)
		}
		// The end of the other one isn't that of the mount.
		must(t, b.Unstage(t.Context(), other.Staging))
		if _, err := os.Stat(filepath.Join(v.pub.Dir, "lost+found")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		must(t, b.Publish(t.Context(), v.pub))
		var args stageArgs
		must(t, decode(v.Staging.Args, &args))
		if !exists(filepath.Join(args.target(), "lost+found")) {
			t.Errorf("%s: the mount of the first volume is gone", name)
		}
		b.down(v)
		b.nothing()
	}
	// The other one comes when the first is gone.
	next := b.persistent("u2", pv(1, login("other")), false)
	b.up(next)
	b.down(next)
	b.nothing()
}

// TestShare: pods that ask for the same share one mount, also with PersistentVolumes of different names.
func TestShare(t *testing.T) {
	b := newBench(t, 1)
	one, two := pv(1), pv(1)
	two.Name = "two"
	first, second := b.persistent("u1", one, false), b.persistent("u2", two, false)
	if first.Key != second.Key {
		t.Errorf("%+v and %+v", first.Key, second.Key)
	}
	b.up(first)
	b.up(second)
	must(t, b.Unpublish(t.Context(), first.pub))
	b.down(second)
	b.nothing()
}

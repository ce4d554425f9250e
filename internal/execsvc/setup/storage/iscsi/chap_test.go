package iscsi

import (
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// TestCHAP: a session is authenticated by the Secret, whose values are in no record, error or log.
func TestCHAP(t *testing.T) {
	b := newBench(t, 1)
	b.secrets["ns/login"] = password
	must(t, os.WriteFile(b.path("chap"), []byte("node.session.auth.password = unspoken password\n"), 0o600))
	v := b.persistent("u1", pv(1, login("login")), false)
	b.up(v)
	node, err := os.ReadFile(b.path("nodes", target+","+portal1))
	must(t, err)
	for _, want := range []string{"node.session.auth.authmethod = CHAP", "node.session.auth.username = u", "node.session.auth.password = unspoken password"} {
		if !strings.Contains(string(node), want+"\n") {
			t.Errorf("the record of open-iscsi lacks %s", want)
		}
	}
	texts := v.Handle + v.Staging.Args + v.pub.Args
	entries, err := os.ReadDir(b.path("records"))
	must(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(b.path("records", e.Name()))
		must(t, err)
		texts += string(data)
	}
	b.down(v)
	b.nothing()
	// The target has another password.
	must(t, os.WriteFile(b.path("chap"), []byte("node.session.auth.password = x\n"), 0o600))
	err = b.Stage(t.Context(), v.Staging)
	if storage.OutcomeOf(err) != storage.Final || !strings.Contains(err.Error(), "authorization failure") {
		t.Errorf("error %v (outcome %d)", err, storage.OutcomeOf(err))
	}
	texts += err.Error() + b.log.String()
	b.nothing()
	// iscsiadm fails as it sets the password.
	program, err := os.ReadFile(b.path("bin/iscsiadm"))
	must(t, err)
	must(t, os.WriteFile(b.path("bin/iscsiadm"), []byte(strings.Replace(string(program), "op=show\n",
		"op=show\ncase \"$*\" in *password*) echo \"$@\" >&2; exit 7 ;; esac\n", 1)), 0o755))
	err = b.Stage(t.Context(), v.Staging)
	if err == nil || !strings.Contains(err.Error(), "set node.session.auth.password: exit status 7") {
		t.Errorf("error %v", err)
	}
	texts += err.Error() + b.log.String()
	if strings.Contains(texts, "unspoken") {
		t.Errorf("the password is shown:\n%s", texts)
	}
	b.nothing()
}

// TestWrongSecret: a Secret that can't be a login is refused before anything is done.
func TestWrongSecret(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1, login("login")), false)
	for name, data := range map[string]map[string]string{
		"no password":  {"node.session.auth.username": "u"},
		"no username":  {"node.session.auth.password": "p"},
		"two lines":    {"node.session.auth.username": "u", "node.session.auth.password": "unspoken\nnode.startup = automatic"},
		"a zero":       {"node.session.auth.username": "u\x00", "node.session.auth.password": "unspoken"},
		"a long value": {"node.session.auth.username": "u", "node.session.auth.password": "p", "node.session.auth.username_in": strings.Repeat("u", 256)},
		"no Secret":    nil,
	} {
		if b.secrets["ns/login"] = data; data == nil {
			delete(b.secrets, "ns/login")
		}
		err := b.Stage(t.Context(), v.Staging)
		if storage.OutcomeOf(err) != storage.Unrepeatable || strings.Contains(err.Error(), "unspoken") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if calls := b.calls(); calls != "" {
		t.Errorf("iscsiadm is called:\n%s", calls)
	}
}

// TestInitiatorName: an iface is cloned for a volume with an initiatorName, and deleted with its last session.
func TestInitiatorName(t *testing.T) {
	b := newBench(t, 1)
	const initiator = "iqn.2026-01.com.example:client"
	v := b.persistent("u1", pv(1, func(s *v1.ISCSIPersistentVolumeSource) { name := initiator; s.InitiatorName = &name }), false)
	const iface = portal1 + ":pv"
	must(t, os.WriteFile(b.path("ifaces", iface), nil, 0o600))
	if err := b.Stage(t.Context(), v.Staging); err == nil || !strings.Contains(err.Error(), "podexecd didn't make the iface") {
		t.Errorf("the iface of another is used: %v", err)
	}
	must(t, os.Remove(b.path("ifaces", iface)))
	b.up(v)
	if data, err := os.ReadFile(b.path("ifaces", iface)); err != nil ||
		string(data) != "iface.initiatorname = "+initiator+"\niface.transport_name = tcp\n" {
		t.Errorf("the iface: %q, %v", data, err)
	}
	if !b.hasNode(portal1) || !exists(b.kubelet+"/plugins/kubernetes.io/iscsi/iface-"+iface) {
		t.Error("the session or the mount has another iface")
	}
	b.down(v)
	b.nothing()
	if exists(b.path("ifaces", iface)) || !exists(b.path("ifaces/default")) {
		t.Error("the wrong iface is deleted")
	}
	if exists(b.kubelet + "/plugins/kubernetes.io/iscsi/iface-" + iface) {
		t.Error("its directory is left")
	}
}

// TestNoIface: a volume whose iface there isn't, as iscsiInterface is mistyped or podexecd ended after it had deleted it, ends.
func TestNoIface(t *testing.T) {
	b := newBench(t, 1)
	name := "iqn.2026-01.com.example:client"
	mistyped := b.persistent("u1", pv(1, func(s *v1.ISCSIPersistentVolumeSource) { s.ISCSIInterface, s.InitiatorName = "eht0", &name }), false)
	if err := b.Stage(t.Context(), mistyped.Staging); storage.OutcomeOf(err) != storage.Final || !strings.Contains(err.Error(), "eht0") {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	must(t, b.Unstage(t.Context(), mistyped.Staging))
	b.nothing()
	v := b.persistent("u2", pv(1, func(s *v1.ISCSIPersistentVolumeSource) { s.InitiatorName = &name }), false)
	must(t, b.Stage(t.Context(), v.Staging))
	b.unplug(v)
	must(t, os.Remove(b.path("nodes", target+","+portal1)))
	must(t, os.Remove(b.path("ifaces", portal1+":pv")))
	b.start("boot")
	must(t, b.Unstage(t.Context(), v.Staging))
	b.nothing()
}

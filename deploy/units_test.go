package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unit returns the settings of a unit, by name. A setting may stand several times.
func unit(t *testing.T, name string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			out[key] = append(out[key], value)
		}
	}
	return out
}

// TestServices: what keeps pods running, in both services. test/systemd shows the effects.
func TestServices(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"podconfigd.service": {"User": "_podconfigd", "ProtectSystem": "strict", "NoNewPrivileges": "yes", "CapabilityBoundingSet": ""},
		"podexecd.service":   {"KillMode": "process", "Delegate": "yes", "OOMPolicy": "continue"},
	} {
		got := unit(t, name)
		for key, value := range map[string]string{
			"Type": "notify", "Restart": "always", "StartLimitIntervalSec": "0", "TimeoutStartSec": "infinity", "OOMScoreAdjust": "-999",
			"TasksMax": "infinity",
		} {
			want[key] = value
		}
		for key, value := range want {
			if !slices.Equal(got[key], []string{value}) {
				t.Errorf("%s has %s=%q; want %q", name, key, got[key], value)
			}
		}
		for _, key := range []string{"WatchdogSec", "LimitNOFILE"} {
			if len(got[key]) != 1 {
				t.Errorf("%s has %d times %s; want one", name, len(got[key]), key)
			}
		}
		// A daemon that waits for the other one, for the runtime or for the network would be a deadlock on a control plane.
		socket := strings.TrimSuffix(name, "service") + "socket"
		for _, key := range []string{"After", "Requires", "BindsTo", "Requisite", "PartOf", "Upholds", "Wants", "Before"} {
			for _, value := range got[key] {
				if value != socket {
					t.Errorf("%s has %s=%s; want nothing but %s", name, key, value, socket)
				}
			}
		}
	}
}

// TestNoMountNamespace: podexecd's volumes reach the pods only from the mount namespace of the host.
func TestNoMountNamespace(t *testing.T) {
	for key := range unit(t, "podexecd.service") {
		for _, prefix := range []string{
			"Private", "Protect", "ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "ExecPaths", "NoExecPaths", "Bind", "Temporary", "Root",
			"MountAPIVFS", "MountImages", "Extension", "DynamicUser", "ProcSubset", "JoinsNamespaceOf", "StateDirectory", "RuntimeDirectory",
			"NetworkNamespacePath", "LogNamespace", "ImportCredential", "LoadCredential", "SetCredential",
		} {
			if strings.HasPrefix(key, prefix) {
				t.Errorf("podexecd.service has %s=: it makes, or may make, a mount namespace", key)
			}
		}
	}
}

// TestUser: podconfigd has one user in the units, the sockets, the directories and the launcher, and one number where a node may
// lack that user. No image has either.
func TestUser(t *testing.T) {
	const user, number = "_podconfigd", "60943"
	for file, want := range map[string][]string{
		"systemd/podconfigd.service":   {"\nUser=" + user + "\n", "\nGroup=" + user + "\n"},
		"systemd/podconfigd.socket":    {"\nSocketUser=" + user + "\n", "\nSocketGroup=" + user + "\n"},
		"podstream.sysusers.conf":      {"\nu " + user + " - "},
		"podstream.tmpfiles.conf":      {"\nd /run/podstream              1775 0     " + user + "\n", " 0700 " + user + " " + user + "\nd /var/lib/podstream/podexecd"},
		"node-dirs.sh":                 {"\nowner=" + number + " group=" + number + "\n", "id -u " + user},
		"../docker-compose.yml":        {`user: "${PODSTREAM_USER:-` + number + ":" + number + `}"`},
		"../internal/launcher/user.go": {`userName = "` + user + `"`, "fallbackID = " + number + "\n"},
		"packages/hand-over.sh":        {`!= ` + user + ` ]`},
		"../docs/install.md":           {user, number},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %q", file, part)
			}
		}
		if strings.HasPrefix(file, "systemd/") || strings.HasPrefix(file, "podstream.") {
			if strings.Contains(string(text), "65532") {
				t.Errorf("%s has the user of many images", file)
			}
		}
	}
}

package launcher

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/podconfigd"
	"github.com/podstream/podstream/internal/podexecd"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// fixture is a file of testdata: what a tool passes to the kubelet, and the effective result.
type fixture struct {
	args            []string
	effective       map[string]string
	commands        *Commands
	settings        *execconfig.Settings
	podexecd, podco *line
}

// readFixture reads the parts of a file, and writes its configuration to a directory of the test.
func readFixture(t *testing.T, path string) *fixture {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, dir, part := &fixture{effective: map[string]string{}}, t.TempDir(), ""
	text := map[string]string{}
	for text1 := range strings.Lines(string(data)) {
		switch name := strings.TrimSpace(text1); name {
		case "args", "config", "drop-in", "effective":
			part = name
		default:
			if part == "" && !strings.HasPrefix(name, "# ") {
				t.Fatalf("%s has no comment that names its source", path)
			}
			text[part] += text1
		}
	}
	files := map[string]string{"CONFIG": filepath.Join(dir, "config.yaml"), "DIR": filepath.Join(dir, "config.d")}
	for path, part := range map[string]string{files["CONFIG"]: "config", filepath.Join(files["DIR"], "00-x.conf"): "drop-in"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if text[part] == "" {
			continue
		}
		if err := os.WriteFile(path, []byte(text[part]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace := strings.NewReplacer("CONFIG", files["CONFIG"], "DIR", files["DIR"])
	for _, arg := range strings.Fields(text["args"]) {
		if strings.HasSuffix(arg, "CONFIG") || strings.HasSuffix(arg, "DIR") {
			arg = replace.Replace(arg)
		}
		f.args = append(f.args, arg)
	}
	for fact := range strings.Lines(text["effective"]) {
		name, value, _ := strings.Cut(strings.TrimSpace(fact), " ")
		f.effective[name] = value
	}
	return f
}

// facts returns the effective result, by the names of the kubelet's flags.
func (f *fixture) facts(t *testing.T) map[string]string {
	t.Helper()
	s := f.settings
	node, err := f.podexecd.common.NodeName()
	if err != nil {
		t.Fatal(err)
	}
	if other, err := f.podco.common.NodeName(); err != nil || other != node {
		t.Errorf("podconfigd is of node %q, %v; podexecd of %q", other, err, node)
	}
	list := func(values []string) string { return cmp.Or(strings.Join(values, " "), "none") }
	var ips, labels, taints, ports []string
	for _, ip := range s.NodeIPs {
		ips = append(ips, ip.String())
	}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		labels = append(labels, key+"="+s.Labels[key])
	}
	for _, taint := range s.RegisterWithTaints {
		taints = append(taints, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
	}
	for _, port := range s.Ports() {
		ports = append(ports, fmt.Sprint(port))
	}
	cloud := "none"
	if s.ExternalCloud {
		cloud = "external"
	}
	return map[string]string{
		"node": node, "root-dir": f.podexecd.common.RootDir, "cert-dir": s.CertDir, "runtime": s.RuntimeEndpoint, "cgroup-driver": s.CgroupDriver,
		"cgroup-root": s.CgroupRoot, "cgroups-per-qos": fmt.Sprint(s.CgroupsPerQOS), "cluster-dns": list(s.ClusterDNS), "kubeconfig": s.Kubeconfig,
		"bootstrap-kubeconfig": s.BootstrapKubeconfig, "node-ip": list(ips), "node-labels": list(labels), "register-with-taints": list(taints),
		"provider-id": s.ProviderID, "cloud-provider": cloud, "image-credential-provider-config": s.CredentialProviderConfig,
		"image-credential-provider-bin-dir": s.CredentialProviderBinDir, "max-pods": fmt.Sprint(s.MaxPods), "fail-swap-on": fmt.Sprint(s.FailSwapOn),
		"protect-kernel-defaults": fmt.Sprint(s.ProtectKernelDefaults), "server-tls-bootstrap": fmt.Sprint(s.ServerTLSBootstrap),
		"tls-cert-file": s.TLSCertFile, "ports": list(ports),
	}
}

// sourcesOf returns the plan of podconfigd.
func (f *fixture) sourcesOf(t *testing.T, flags *sourceconfig.Flags) string {
	t.Helper()
	plan, err := sourceconfig.Make(sourceconfig.Input{Files: f.podco.files, Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range plan.Sources {
		switch {
		case s.File != nil:
			out = append(out, s.Name+"="+s.File.Path)
		case s.API != nil:
			out = append(out, s.Name+"="+s.API.Kubeconfig)
		default:
			out = append(out, s.Name)
		}
	}
	return strings.Join(out, " ")
}

// kubeconfig is valid, and of no cluster.
const kubeconfig = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],
clusters: [{name: k, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {token: t}}]}`

// TestFixtures: what the tools of the field pass to the kubelet starts both daemons, with the effective result that the tool
// relies on. Both daemons' own --check-config accept it.
func TestFixtures(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 6 {
		t.Fatalf("%d fixtures, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := readFixture(t, path)
			if f.commands, err = Split(f.args, "/"); err != nil {
				t.Fatal(err)
			}
			defaults, err := Check(f.commands)
			if err != nil {
				t.Fatal(err)
			}
			f.commands.Podexecd = append(f.commands.Podexecd, defaults...)
			var exec execconfig.Flags
			var sources sourceconfig.Flags
			if f.podexecd, err = podexecdLine(f.commands.Podexecd, &exec); err != nil {
				t.Fatal(err)
			}
			if f.podco, err = podconfigdLine(f.commands.Podconfigd, &sources); err != nil {
				t.Fatal(err)
			}
			if f.settings, err = exec.Settle(f.podexecd.files); err != nil {
				t.Fatal(err)
			}
			got := f.facts(t)
			got["sources"] = f.sourcesOf(t, &sources)
			for name, want := range f.effective {
				if value, ok := got[name]; !ok || value != want {
					t.Errorf("%s is %q; want %q", name, value, want)
				}
			}
			f.checkConfig(t)
		})
	}
}

// checkConfig has both daemons check the command line. podconfigd's kubeconfig must exist for that.
func (f *fixture) checkConfig(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(f.commands.Podconfigd)
	for i, arg := range args {
		if strings.HasPrefix(arg, "--kubeconfig=") {
			args[i] = "--kubeconfig=" + file
		}
	}
	var out, errs bytes.Buffer
	if code := podconfigd.Program().Run(t.Context(), append(args, "--check-config"), &out, &errs); code != 0 {
		t.Errorf("podconfigd: exit code %d: %s", code, &errs)
	}
	if code := podexecd.Program().Run(t.Context(), append(slices.Clone(f.commands.Podexecd), "--check-config"), &out, &errs); code != 0 {
		t.Errorf("podexecd: exit code %d: %s", code, &errs)
	}
	if !strings.Contains(out.String(), "api ") || !strings.Contains(out.String(), "kind: KubeletConfiguration") {
		t.Errorf("the daemons print:\n%s", &out)
	}
}

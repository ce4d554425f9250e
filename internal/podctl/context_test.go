package podctl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoContexts = `apiVersion: podstream.io/v1alpha1
kind: PodctlConfig
currentContext: here
credentials:
- {name: ops, certFile: ops.crt, keyFile: /k/ops.key, caFile: ca.crt}
contexts:
- {name: here, podconfigEndpoint: /here/c.sock, podexecEndpoint: /here/e.sock}
- {name: there, podconfigEndpoint: "tcp://there:1", podexecEndpoint: "tcp://there:2", credentials: ops, tlsServerName: node}
- {name: gateway, podconfigEndpoint: "tcp://gw:1", credentials: ops}
`

// settings are what a command line, the environment and podctl.yaml give.
type settings struct{ podconfigd, podexecd, cert, key, ca, server string }

// settingsOf returns the settings of a command, or its error.
func settingsOf(t *testing.T, variables map[string]string, args ...string) (settings, error) {
	t.Helper()
	tool := newTool(Config{Args: append(args, "pods"), Getenv: func(name string) string { return variables[name] }})
	if err := tool.readEnvironment(); err != nil {
		t.Fatal(err)
	}
	root := tool.command()
	cmd, rest, err := root.Find(tool.Args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := tool.useContext(t.Context(), cmd); err != nil {
		return settings{}, err
	}
	got := settings{cert: tool.tls.CertFile, key: tool.tls.KeyFile, ca: tool.tls.CAFile, server: tool.tls.ServerName}
	for _, d := range []struct {
		daemon daemon
		into   *string
	}{{tool.podconfigd, &got.podconfigd}, {tool.podexecd, &got.podexecd}} {
		if d.daemon.endpoint != (endpoint{}) {
			*d.into = d.daemon.endpoint.String()
		}
	}
	return got, nil
}

// TestContextPrecedence: flags of single settings take precedence over --context, that over environment variables, these over the
// current context, and that over the defaults. docs/configuration.md has the same table.
func TestContextPrecedence(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, ".config", "podstream", "podctl.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(twoContexts), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	ops := settings{cert: dir + "/ops.crt", key: "/k/ops.key", ca: dir + "/ca.crt", server: "node"}
	there := ops
	there.podconfigd, there.podexecd = "tcp://there:1", "tcp://there:2"
	with := func(s settings, change func(*settings)) settings {
		change(&s)
		return s
	}
	for _, tc := range []struct {
		name      string
		variables map[string]string
		args      []string
		want      settings
	}{
		{"nothing", map[string]string{"HOME": "/none"}, nil, settings{podconfigd: "unix:///run/podstream/podconfigd.sock", podexecd: "unix:///run/podstream/podexecd.sock"}},
		{"the current context", nil, nil, settings{podconfigd: "unix:///here/c.sock", podexecd: "unix:///here/e.sock"}},
		{"a variable over the current context", map[string]string{envPodexecEndpoint: "/v.sock"}, nil,
			settings{podconfigd: "unix:///here/c.sock", podexecd: "unix:///v.sock"}},
		{"the directory over the current context", map[string]string{envRunDir: "/v"}, nil,
			settings{podconfigd: "unix:///v/podconfigd.sock", podexecd: "unix:///v/podexecd.sock"}},
		{"--context over variables", map[string]string{envRunDir: "/v", envPodexecEndpoint: "/v.sock"}, []string{"--context=there"}, there},
		{"a flag over --context", nil, []string{"--context=there", "--podexec-endpoint=/f.sock"},
			with(there, func(s *settings) { s.podexecd = "unix:///f.sock" })},
		{"a flag over a variable", map[string]string{envPodconfigEndpoint: "/v.sock"}, []string{"--podconfig-endpoint=/f.sock"},
			settings{podconfigd: "unix:///f.sock", podexecd: "unix:///here/e.sock"}},
		{"a credential's flag over the context's", nil, []string{"--context=there", "--tls-cert-file=f.crt", "--tls-server-name=f"},
			with(there, func(s *settings) { s.cert, s.server = "f.crt", "f" })},
		{"a context without podexecd", nil, []string{"--context=gateway"},
			with(ops, func(s *settings) { s.podconfigd, s.server = "tcp://gw:1", "" })},
		{"no context", nil, []string{"--context="}, settings{podconfigd: "unix:///run/podstream/podconfigd.sock", podexecd: "unix:///run/podstream/podexecd.sock"}},
		{"no file", nil, []string{"--config="}, settings{podconfigd: "unix:///run/podstream/podconfigd.sock", podexecd: "unix:///run/podstream/podexecd.sock"}},
		{"another file by the environment", map[string]string{"HOME": "/none", envConfig: path}, nil, settings{podconfigd: "unix:///here/c.sock", podexecd: "unix:///here/e.sock"}},
		{"another file by the flag", map[string]string{"HOME": "/none", envConfig: "/none"}, []string{"--config=" + path, "--context=there"}, there},
	} {
		variables := map[string]string{"HOME": home}
		for name, value := range tc.variables {
			variables[name] = value
		}
		if got, err := settingsOf(t, variables, tc.args...); err != nil || got != tc.want {
			t.Errorf("%s: %+v, error %v; want %+v", tc.name, got, err, tc.want)
		}
	}
}

// podctlYAML writes a file, and returns its path.
func podctlYAML(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "podctl.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// A context that can't be used is an error, for each command that asks a daemon: no other endpoint is used, also if one answers.
func TestContextIsNeverReplaced(t *testing.T) {
	n := newNode(t)
	config, exec := examples(t)
	n.podconfigd(config)
	n.podexecd(exec)
	good, open := podctlYAML(t, twoContexts, 0o600), podctlYAML(t, twoContexts, 0o666)
	for _, tc := range []struct {
		args, want string
		code       int
	}{
		{"--config " + good + " --context none pods", `there is no context "none" in ` + good + "; it has here, there, gateway", exitFailed},
		{"--config " + good + " --context none diff --at /x -", `there is no context "none"`, exitTrouble},
		{"--config /none/podctl.yaml pods", "open /none/podctl.yaml: no such file or directory", exitFailed},
		{"--config " + open + " pods", open + " is refused: a group or others may write to it", exitFailed},
		{"--config= --context here pods", `there is no context "here": there is no file podctl.yaml`, exitFailed},
		{"--config " + good + " ps", "can't reach podexecd at unix:///here/e.sock (context here): there is no such socket", exitFailed},
		{"--config " + good + " --context gateway ps", "context gateway has no endpoint of podexecd: its podexecEndpoint isn't set in podctl.yaml", exitFailed},
		{"--config " + good + " --context gateway sources", "connect to podconfigd at tcp://gw:1 (context gateway): ", exitFailed},
		{"--config " + podctlYAML(t, strings.Replace(twoContexts, "currentContext: here", "currentContext: gone", 1), 0o600) + " pods", `there is no context "gone"`, exitFailed},
	} {
		n.stdout, n.stderr = newScreen(), newScreen()
		code := Run(t.Context(), Config{Args: strings.Fields(tc.args), Stdout: n.stdout, Stderr: n.stderr, Hostname: "node1", Getenv: func(name string) string {
			return map[string]string{"HOME": "/none"}[name]
		}})
		if code != tc.code || n.stdout.String() != "" || !strings.Contains(n.stderr.String(), tc.want) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %q", tc.args, code, n.stdout, n.stderr, tc.want)
		}
	}
}

func TestConfigCommands(t *testing.T) {
	path := podctlYAML(t, strings.Replace(twoContexts, "currentContext: here", "currentContext: gone", 1), 0o644)
	run := func(args string) (int, string, string) {
		return runAlone(append(strings.Fields(args), "--config", path)...)
	}
	table := "CURRENT   NAME      PODCONFIGD      PODEXECD       CREDENTIALS\n" +
		"          here      /here/c.sock    /here/e.sock   -\n" +
		"*         there     tcp://there:1   tcp://there:2  ops\n" +
		"          gateway   tcp://gw:1      -              ops\n"
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"config current-context", exitOK, "gone\n"},
		{"config use-context none", exitFailed, ""},
		{"config use-context there", exitOK, "Switched to context \"there\".\n"},
		{"config current-context", exitOK, "there\n"},
		{"config get-contexts", exitOK, table},
		{"config get-contexts -o name", exitOK, "context/here\ncontext/there\ncontext/gateway\n"},
		{"config get-contexts -o jsonpath={.contexts[?(@.current==true)].name}", exitOK, "there"},
		{"config view -o jsonpath={.contexts[*].name}", exitOK, "here there gateway"},
	} {
		code, stdout, stderr := run(tc.args)
		if code != tc.code || strings.Join(strings.Fields(stdout), " ") != strings.Join(strings.Fields(tc.want), " ") {
			t.Errorf("%s: exit code %d, stdout\n%swant\n%s stderr %q", tc.args, code, stdout, tc.want, stderr)
		}
	}
	if _, stdout, _ := run("config view"); !strings.Contains(stdout, "kind: PodctlConfig\n") || !strings.Contains(stdout, "certFile: "+filepath.Dir(path)+"/ops.crt\n") {
		t.Errorf("view prints\n%s", stdout)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	if code, stdout, stderr := runAlone("version", "--client", "--config=/none"); code != exitOK || !strings.HasPrefix(stdout, "podctl v1.2.3") {
		t.Errorf("version --client: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if code, _, stderr := runAlone("config", "view"); code != exitFailed || !strings.Contains(stderr, "give its path by --config or PODCTL_CONFIG") {
		t.Errorf("without a file: exit code %d, stderr %q", code, stderr)
	}
}

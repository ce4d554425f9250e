package sourceconfig

import (
	"strings"
	"testing"
)

// TestProblems: a file that a source names and that can't be used is a problem of that source: it is in the plan,
// with the error and its place, and without credentials.
func TestProblems(t *testing.T) {
	kube := map[string]string{
		"/k/none.conf": "apiVersion: v1\nkind: Config\n", "/k/ca.conf": strings.Replace(kubeconfig("https://a", ""), "server:", "certificate-authority: ca.crt, server:", 1),
		"/k/user.conf": strings.Replace(kubeconfig("https://a", ""), "user: u", "user: v", 1), "/k/junk.conf": "{", "/k/server.conf": kubeconfig("", ""),
		"/pki/junk.pem": "junk", "/k/proxy.conf": strings.Replace(kubeconfig("https://a", ""), "server:", "proxy-url: 'http://secret:x', server:", 1),
		"/k/user-host.conf": kubeconfig("//me:secret@h/path", ""), "/k/type.conf": "apiVersion: v1\nkind: Config\nusers: secret\n",
	}
	for _, tc := range []struct {
		in   inputs
		want string
	}{
		{inputs{main: sourcesHead + "urls:\n- url: https://h\n  caFile: x\n"},
			"/etc/p.yaml:5: urls[0].caFile: open /etc/x: file does not exist"},
		{inputs{also: kube, main: sourcesHead + "urls: [{url: 'https://h', caFile: /pki/junk.pem}]\n"},
			"urls[0].caFile: /pki/junk.pem holds no certificate"},
		{inputs{main: sourcesHead + "urls: [{url: 'https://h', keyFile: /pki/key.pem, certFile: /pki/key.pem}]\n"},
			"urls[0].certFile: /pki/key.pem and /pki/key.pem: tls"},
		{inputs{main: sourcesHead + "apiServer:\n  kubeconfig: k\n"},
			"/etc/p.yaml:4: apiServer.kubeconfig: open /etc/k: file does not exist"},
		{inputs{also: kube, flags: []string{"--kubeconfig=/k/none.conf"}},
			"--kubeconfig /k/none.conf: /k/none.conf: there is no context"},
		{inputs{also: kube, flags: []string{"--kubeconfig=/k/junk.conf"}}, "--kubeconfig /k/junk.conf: /k/junk.conf:1: this isn't valid YAML"},
		{inputs{also: kube, flags: []string{"--kubeconfig=/k/ca.conf"}}, "certificate-authority: open /k/ca.crt: file does not exist"},
		{inputs{also: kube, flags: []string{"--kubeconfig=/k/user.conf"}}, `there is no user "v"`},
		{inputs{also: kube, flags: []string{"--kubeconfig=/k/server.conf"}}, "server isn't a URL"},
		{inputs{flags: []string{"--manifest-url=https://h", "--manifest-url-ca-file=/x"}}, "--manifest-url-ca-file: open /x"},
		{inputs{flags: []string{"--relay-from=tcp://h:1", "--relay-cert-file=/x", "--relay-key-file=/pki/key.pem"}},
			"--relay-cert-file: open /x"},
		{inputs{also: kube, flags: []string{"--kubeconfig=/k/proxy.conf"}}, "cluster k: proxy-url isn't a URL"},
		{inputs{also: kube, flags: []string{"--kubeconfig=/k/user-host.conf"}}, "cluster k: server isn't a URL"},
		{inputs{also: kube, flags: []string{"--kubeconfig=/k/type.conf"}}, "--kubeconfig /k/type.conf: /k/type.conf isn't a kubeconfig"},
	} {
		tc.in.flags = append(tc.in.flags, "--pod-manifest-path=/m")
		plan, err := tc.in.plan(t)
		if err != nil {
			t.Errorf("%+v is refused: %v", tc.in, err)
			continue
		}
		if len(plan.Sources) != 2 || plan.Sources[0].Problem != nil || plan.Sources[1].Fingerprint == "" {
			t.Errorf("%+v gives the sources %+v; want the one of the files, which is good, and the one with the problem", tc.in, plan.Sources)
		}
		if problem := plan.Sources[1].Problem; problem == nil || !strings.Contains(problem.Error(), tc.want) ||
			strings.Contains(problem.Error(), "secret") {
			t.Errorf("%+v gives the problem\n%v\nwant\n%s", tc.in, problem, tc.want)
		}
	}
}

// TestProblemsAmongMistakes: if there is a mistake too, all errors are returned together.
func TestProblemsAmongMistakes(t *testing.T) {
	_, err := inputs{main: sourcesHead + "urls:\n- url: https://h\n  caFile: x\n- url: ftp://h\n  name: b\n"}.plan(t)
	want := "/etc/p.yaml:5: urls[0].caFile: open /etc/x: file does not exist\n/etc/p.yaml:6: urls[1].url: want http://host/path or https://host/path"
	if err == nil || err.Error() != want {
		t.Errorf("the error is\n%v\nwant\n%s", err, want)
	}
}

// TestSameSettings: a kubeconfig that can't be read is that of the same source nevertheless.
func TestSameSettings(t *testing.T) {
	of := func(text string, flags ...string) Source {
		plan, err := inputs{flags: append(flags, "--kubeconfig=/k"), also: map[string]string{"/k": text}}.plan(t)
		if err != nil {
			t.Fatal(err)
		}
		return plan.Sources[0]
	}
	good := of(kubeconfig("https://a", "token: secret"))
	for name, tc := range map[string]struct {
		other Source
		want  bool
	}{
		"the same": {of(kubeconfig("https://a", "token: secret")), true}, "another server": {of(kubeconfig("https://b", "")), true},
		"no kubeconfig": {of("{"), true}, "other nodes": {of("{", "--nodes=n"), false},
	} {
		if got := good.SameSettings(tc.other); got != tc.want {
			t.Errorf("%s: the settings are the same: %v; want %v", name, got, tc.want)
		}
	}
}

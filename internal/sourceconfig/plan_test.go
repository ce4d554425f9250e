package sourceconfig

import (
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/sources/apiserver"
)

func TestPlan(t *testing.T) {
	kube := map[string]string{"/etc/kube.conf": kubeconfig("https://me:secret@api:6443", "tokenFile: token"), "/etc/token": "x"}
	for _, tc := range []struct {
		name string
		in   inputs
		want string
	}{
		{"nothing is given", inputs{}, "file /etc/podstream/manifests"},
		{"a configuration without sources", inputs{main: kubeletHead}, ""},
		{"another source's flag", inputs{flags: []string{"--manifest-url=http://h/p"}}, "http http://h/p"},
		{"both flags", inputs{flags: []string{"--manifest-url=http://h/p", "--pod-manifest-path=/m"}}, "file /m\nhttp http://h/p"},
		{"no manifests", inputs{flags: []string{"--pod-manifest-path="}}, ""},
		{"names in flags", inputs{flags: []string{"--pod-manifest-path=a=/m", "--pod-manifest-path=/x=y", "--relay-from=up=unix:///s"}},
			"file:a /m\nfile /x=y\nrelay:up unix:///s"},
		{"the kubelet's fields", inputs{main: kubeletHead + `staticPodPath: manifests
staticPodURL: https://me:secret@h/p?token=secret&a=b
staticPodURLHeader: {x-a: [b]}
fileCheckFrequency: 5s
httpCheckFrequency: 6s
`}, "file /etc/manifests 5s\nhttp https://h/p?token=…&a=… 6s map[X-A:[b]]"},
		{"flags over the kubelet's fields", inputs{main: kubeletHead + "staticPodPath: m\nstaticPodURL: http://h/p\nfileCheckFrequency: 5s\n",
			flags: []string{"--pod-manifest-path=/m", "--manifest-url=", "--file-check-frequency=20s"}}, "file /m"},
		{"headers of a flag replace the kubelet's", inputs{main: kubeletHead + "staticPodURL: http://h/p\nstaticPodURLHeader: {A: [b]}\n",
			flags: []string{"--manifest-url-header=C: d,C:e:f"}}, "http http://h/p map[C:[d e:f]]"},
		{"headers of one URL", inputs{
			flags: []string{"--manifest-url=http://h/p", "--manifest-url=b=http://i/p", "--manifest-url-header=A:x,B:y", "--manifest-url-header=b=a:z"},
		}, "http http://h/p map[A:[x] B:[y]]\nhttp:b http://i/p map[A:[z] B:[y]]"},
		{"PodSources", inputs{also: kube, main: kubeletHead + "staticPodPath: m\n---\n" + sourcesHead + `files: [{name: b, path: b}]
urls: [{name: u, url: "https://h/p", headers: {a: [b]}, caFile: /pki/ca.pem}]
relays: [{address: "tcp://r:1", caFile: ../pki/ca.pem, certFile: ../pki/cert.pem, keyFile: ../pki/key.pem}]
apiServer: {kubeconfig: kube.conf}
nodes: [b, a]
`}, `file /etc/m
file:b /etc/b
http:u https://h/p map[A:[b]] /pki/ca.pem
relay tcp://r:1 /pki/cert.pem a,b
api https://api:6443 /etc/kube.conf a,b`},
		{"how objects' changes are found", inputs{main: kubeletHead + "configMapAndSecretChangeDetectionStrategy: Cache\n",
			flags: []string{"--in-cluster"}}, "api in-cluster   Cache"},
		{"drop-ins", inputs{main: sourcesHead + "files: [{name: a, path: /a}, {name: b, path: /b}]\napiServer: {inCluster: true}\n" +
			"nodes: ['*']\n", dropIns: []string{
			sourcesHead + "files: [{name: c, path: /c}, {name: a, path: x}]\n", kubeletHead + "staticPodPath: other\n", sourcesHead + "nodes: [n1]\n",
		}}, "file /etc/p.d/other\nfile:a /etc/p.d/x\nfile:b /b\nfile:c /c\napi in-cluster  n1"},
		{"flags over PodSources", inputs{main: sourcesHead + "files: [{path: /a}]\nrelays: [{address: 'unix:///s'}]\n" +
			"apiServer: {inCluster: true}\nnodes: [x]\n",
			flags: []string{"--relay-from=up=unix:///t", "--kubeconfig=", "--nodes=*"}}, "file /a\nrelay:up unix:///t  *"},
		{"order by kind and name", inputs{main: sourcesHead + "files: [{path: /a}, {name: b, path: /b}, {name: c, path: /c}]\n" +
			"urls: [{url: 'http://h/'}]\napiServer: {inCluster: true}\norder: [api, 'file:c', http]\n"}, "api in-cluster\nfile:c /c\nhttp http://h/\nfile /a\nfile:b /b"},
		{"written pods beside the default path", inputs{flags: []string{"--applied"}}, "file /etc/podstream/manifests\napplied podctl apply"},
		{"written pods are the last, whatever the order is", inputs{main: sourcesHead + "applied: {enabled: true}\napiServer: {inCluster: true}\norder: [api]\n",
			flags: []string{"--pod-manifest-path=/m"}}, "api in-cluster\nfile /m\napplied podctl apply"},
		{"written pods aren't enabled", inputs{main: sourcesHead + "applied: {enabled: false}\nfiles: [{path: /a}]\n"}, "file /a"},
		{"the last file decides about written pods", inputs{main: sourcesHead + "applied: {enabled: true}\n", dropIns: []string{sourcesHead + "applied: {}\n"}}, ""},
		{"the flag decides about written pods", inputs{main: sourcesHead + "applied: {enabled: true}\n", flags: []string{"--applied=false"}}, ""},
		{"a kind stands for all that aren't named", inputs{main: sourcesHead + "files: [{path: /a}, {name: b, path: /b}, {name: c, path: /c}]\n",
			flags: []string{"--source-order=file:c,file"}}, "file:c /c\nfile /a\nfile:b /b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan, err := tc.in.plan(t)
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.text(); got != tc.want {
				t.Errorf("the plan is\n%s\nwant\n%s", got, tc.want)
			}
			if strings.Contains(plan.text(), "secret") {
				t.Error("a location has credentials")
			}
		})
	}
}

// TestFingerprint: it is another one if anything that the source is made with is, and else the same.
func TestFingerprint(t *testing.T) {
	base := "files: [{path: /a}]\nurls: [{url: 'https://h', headers: {A: [b, c]}}]\napiServer: {kubeconfig: /k}\n"
	of := func(text string, server string, flags ...string) map[string]string {
		plan, err := inputs{main: sourcesHead + text, flags: flags, also: map[string]string{"/k": kubeconfig(server, "")}}.plan(t)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, s := range plan.Sources {
			out[s.Name] = s.Fingerprint
		}
		return out
	}
	before := of(base, "https://a")
	for name, tc := range map[string]struct {
		after   map[string]string
		changed []string
	}{
		"nothing":               {of(base+"# said otherwise\norder: [api]\n", "https://a"), nil},
		"a path":                {of(strings.Replace(base, "/a", "/b", 1), "https://a"), []string{"file"}},
		"a header":              {of(strings.Replace(base, "b, c", "b", 1), "https://a"), []string{"http"}},
		"credentials of a URL":  {of(strings.Replace(base, "https://h", "https://u:p@h", 1), "https://a"), []string{"http"}},
		"the kubeconfig's text": {of(base, "https://b"), []string{"api"}},
		"how changes are found": {
			of(base+"---\n"+kubeletHead+"configMapAndSecretChangeDetectionStrategy: Get\n", "https://a"), []string{"api"},
		},
		"what is so by default": {of(base+"---\n"+kubeletHead+"configMapAndSecretChangeDetectionStrategy: Watch\n", "https://a"), nil},
		"the cluster":           {of(strings.Replace(base, "/k}", "/k, clusterUID: u}", 1), "https://a"), []string{"api"}},
		"the flag of it":        {of(base, "https://a", "--api-cluster-uid=u"), []string{"api"}},
		"the nodes":             {of(base+"nodes: [x]\n", "https://a"), []string{"api"}},
		"strictness":            {of(base+"strictManifests: true\n", "https://a"), []string{"file", "http"}},
		"a flag":                {of(base, "https://a", "--file-check-frequency=1s"), []string{"file"}},
	} {
		var changed []string
		for _, source := range []string{"file", "http", "api"} {
			if tc.after[source] != before[source] {
				changed = append(changed, source)
			}
		}
		if !slices.Equal(changed, tc.changed) {
			t.Errorf("%s: the fingerprints of %v changed; want %v", name, changed, tc.changed)
		}
	}
}

// TestUnwritable: a podconfigd that serves other nodes and takes writes has a warning.
func TestUnwritable(t *testing.T) {
	for _, tc := range []struct {
		flags []string
		want  int
	}{{[]string{"--applied"}, 0}, {[]string{"--applied", "--nodes=*"}, 1}, {[]string{"--applied", "--nodes=a,b"}, 1}, {[]string{"--applied", "--nodes=a"}, 0}} {
		plan, err := inputs{flags: append(tc.flags, "--kubeconfig=", "--in-cluster=true")}.plan(t)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.DeleteFunc(plan.Warnings, func(w string) bool { return !strings.HasPrefix(w, "applied: ") }); len(got) != tc.want {
			t.Errorf("%v: the warnings are %q; want %d about applied", tc.flags, got, tc.want)
		}
	}
}

// TestWarnings: names that are waited for are no mistake, as files come and go.
func TestWarnings(t *testing.T) {
	plan, err := inputs{
		main:  kubeletHead + "staticPodPath: /m\nrunOnce: true\nnew: 1\nmaxPods: 5\n",
		flags: []string{"--manifest-url-header=web=K:v", "--source-order=http:web,file"},
	}.plan(t)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/etc/p.yaml:5: new: there is no such field", `--manifest-url-header: there is no manifest URL of the name "web"`,
		"--source-order http:web,file: there is no source http:web",
	}
	if !slices.Equal(plan.Warnings, want) || !slices.Equal(plan.Ignored, []string{"runOnce"}) || !slices.Equal(plan.Podexecd, []string{"maxPods"}) {
		t.Errorf("warnings %q, ignored %q, podexecd's %q; want %q, runOnce and maxPods", plan.Warnings, plan.Ignored, plan.Podexecd, want)
	}
}

// TestIdleFlags: flags for URLs and relays without a use cause warnings; certificates apply to those that can use
// them.
func TestIdleFlags(t *testing.T) {
	tls := []string{"--manifest-url-ca-file=/pki/ca.pem", "--manifest-url-header=A:b"}
	const idle = "--manifest-url-ca-file: there is no URL that it is for"
	for name, tc := range map[string]struct {
		in   inputs
		want []string
	}{
		"no URL": {inputs{flags: append(tls, "--pod-manifest-path=/m")}, []string{idle, "--manifest-url-header: there is no URL that it is for"}},
		"the URLs of PodSources": {inputs{flags: tls, main: sourcesHead + "urls: [{url: 'https://h'}]\n"},
			[]string{idle, "--manifest-url-header: there is no URL that it is for"}},
		"one without TLS": {inputs{flags: append(tls, "--manifest-url=http://h")}, []string{idle}},
		"one with":        {inputs{flags: append(tls, "--manifest-url=http://h", "--manifest-url=b=https://h")}, nil},
		"the kubelet's":   {inputs{flags: tls, main: kubeletHead + "staticPodURL: https://h\n"}, nil},
		"a relay without TLS": {inputs{flags: []string{"--relay-ca-file=/pki/ca.pem", "--relay-from=unix:///s"}},
			[]string{"--relay-ca-file: there is no relay that it is for"}},
		"one relay with": {inputs{flags: []string{"--relay-ca-file=/pki/ca.pem", "--relay-cert-file=/pki/cert.pem", "--relay-key-file=/pki/key.pem",
			"--relay-from=unix:///s", "--relay-from=b=tcp://h:1"}}, nil},
	} {
		plan, err := tc.in.plan(t)
		if err != nil || !slices.Equal(plan.Warnings, tc.want) {
			t.Errorf("%s: the warnings are %q, %v; want %q", name, plan.Warnings, err, tc.want)
			continue
		}
		for _, s := range plan.Sources {
			if s.HTTP != nil && strings.HasPrefix(s.Location, "http:") && s.HTTP.CAFile != "" {
				t.Errorf("%s: %s has certificates, and no use for them", name, s.Location)
			}
		}
	}
}

// TestClusterUID: the flag has precedence over the file, wherever the API server is configured.
func TestClusterUID(t *testing.T) {
	inFile := sourcesHead + "apiServer: {inCluster: true, clusterUID: file}\n"
	for name, tc := range map[string]struct {
		in      inputs
		want    string
		warning string
	}{
		"neither":            {inputs{main: sourcesHead + "apiServer: {inCluster: true}\n"}, "", ""},
		"the file":           {inputs{main: inFile}, "file", ""},
		"flag over file":     {inputs{main: inFile, flags: []string{"--api-cluster-uid=flag"}}, "flag", ""},
		"an empty flag":      {inputs{main: inFile, flags: []string{"--api-cluster-uid="}}, "", ""},
		"another API server": {inputs{main: inFile, flags: []string{"--in-cluster"}}, "", ""},
		"flags alone":        {inputs{flags: []string{"--in-cluster", "--api-cluster-uid=flag"}}, "flag", ""},
		"no API server":      {inputs{flags: []string{"--api-cluster-uid=flag"}}, "none", "--api-cluster-uid: there is no API server that it is for"},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := tc.in.plan(t)
			if err != nil {
				t.Fatal(err)
			}
			got := "none"
			for _, s := range plan.Sources {
				if s.API != nil {
					got = string(s.API.ClusterUID)
				}
			}
			if got != tc.want || strings.Join(plan.Warnings, "\n") != tc.warning {
				t.Errorf("the cluster is %q, with the warnings %q; want %q and %q", got, plan.Warnings, tc.want, tc.warning)
			}
		})
	}
}

// TestWatchSecrets: the scope is the API server's. A warning says if it has no effect.
func TestWatchSecrets(t *testing.T) {
	for name, tc := range map[string]struct {
		in      inputs
		want    apiserver.WatchScope
		warning bool
	}{
		"default":       {inputs{flags: []string{"--in-cluster", "--nodes=*"}}, apiserver.WatchName, false},
		"all nodes":     {inputs{flags: []string{"--in-cluster", "--nodes=*", "--watch-secrets=namespace"}}, apiserver.WatchNamespace, false},
		"several nodes": {inputs{flags: []string{"--in-cluster", "--nodes=a,b", "--watch-secrets=namespace"}}, apiserver.WatchNamespace, false},
		"one node":      {inputs{flags: []string{"--in-cluster", "--watch-secrets=namespace"}}, apiserver.WatchNamespace, true},
		"nothing watched": {inputs{main: kubeletHead + "configMapAndSecretChangeDetectionStrategy: Get\n",
			flags: []string{"--in-cluster", "--nodes=*", "--watch-secrets=namespace"}}, apiserver.WatchNamespace, true},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := tc.in.plan(t)
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.Sources[0].API.WatchSecrets; got != tc.want {
				t.Errorf("the scope is %q; want %q", got, tc.want)
			}
			warned := slices.ContainsFunc(plan.Warnings, func(w string) bool { return strings.HasPrefix(w, "--watch-secrets") })
			if warned != tc.warning {
				t.Errorf("the warnings are %q", plan.Warnings)
			}
		})
	}
}

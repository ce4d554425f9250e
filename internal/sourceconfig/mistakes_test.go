package sourceconfig

import (
	"slices"
	"strings"
	"testing"
)

// TestMistakes: each error has its place, and no credentials.
func TestMistakes(t *testing.T) {
	for _, tc := range []struct {
		in   inputs
		want string
	}{
		{inputs{main: "apiVersion: v1\nkind: Pod\n"},
			"/etc/p.yaml:2: kind: want KubeletConfiguration of kubelet.config.k8s.io/v1beta1, or PodSources of"},
		{inputs{main: sourcesHead + "file: []\nfiles: [{path: /a, pth: /b}]\n"},
			"/etc/p.yaml:3: file: there is no such field\n/etc/p.yaml:4: files[0].pth: there is no such field"},
		{inputs{main: sourcesHead + "order: [api]\norder: [file]\n"}, "/etc/p.yaml:4: order: it is given already in line 3"},
		{inputs{main: sourcesHead + "files:\n- {path: /a}\n- {path: /b}\n"},
			"/etc/p.yaml:5: files[1].name: there is a source file already"},
		{inputs{main: kubeletHead + "staticPodPath: /a\n---\n" + sourcesHead + "files: [{path: /a}]\n"},
			"/etc/p.yaml:7: files[0].name: there is a source file already"},
		{inputs{main: sourcesHead + "files:\n- name: Not A Name\n  path: /a\n"},
			`/etc/p.yaml:4: files[0].name: "Not A Name" can't be a source's name`},
		{inputs{main: sourcesHead + "files: [{name: a}]\n"}, "/etc/p.yaml:3: files[0].path: the path is empty"},
		{inputs{main: kubeletHead + "configMapAndSecretChangeDetectionStrategy: Guess\n"},
			"/etc/p.yaml:3: configMapAndSecretChangeDetectionStrategy: want Watch, Cache or Get"},
		{inputs{main: kubeletHead + "staticPodURL: ftp://x/y\n"},
			"/etc/p.yaml:3: staticPodURL: want http://host/path or https://host/path"},
		{inputs{main: kubeletHead + "staticPodURL: http://x/\nstaticPodURLHeader: {'a b': [c]}\n"},
			"/etc/p.yaml:4: staticPodURLHeader: this can't be the name of a header"},
		{inputs{main: sourcesHead + "urls: [{url: 'http://me:secret@h:x'}]\n"}, "/etc/p.yaml:3: urls[0].url: this isn't a URL"},
		{inputs{main: sourcesHead + "urls: [{url: 'http://h', caFile: /pki/ca.pem}]\n"},
			"urls[0].url: certificates are of use only with https"},
		{inputs{main: sourcesHead + "urls: [{url: 'https://h', certFile: /pki/cert.pem}]\n"},
			"urls[0].certFile: there is a certificate without a key"},
		{inputs{main: sourcesHead + "urls: [{url: 'https://h', keyFile: /pki/key.pem}]\n"},
			"urls[0].keyFile: there is a key without a certificate"},
		{inputs{main: sourcesHead + "urls: [{url: 'https://h', headers: {A: [\"secret\\n\"]}}]\n"},
			"urls[0].headers: the value of A can't be that of a header"},
		{inputs{main: sourcesHead + "relays: [{address: 'h:1'}]\n"}, "relays[0].address: want unix:///path or tcp://host:port"},
		{inputs{main: sourcesHead + "relays: [{address: 'tcp://h:1'}]\n"}, "relays[0].address: TCP takes mutual TLS"},
		{inputs{main: sourcesHead + "relays: [{address: 'tcp://h:1,unix:///s'}]\n"}, "relays[0].address: unix:// and tcp:// don't go together"},
		{inputs{main: sourcesHead + "relays: [{address: 'unix:///s,unix:///s'}]\n"}, "relays[0].address: unix:///s is listed twice"},
		{inputs{main: sourcesHead + "relays: [{address: 'unix:///s,unix:///t', addressOrder: first}]\n"},
			`relays[0].addressOrder: "first" is no order; want random or listed`},
		{inputs{flags: []string{"--relay-from=unix:///s,t"}}, "--relay-from unix:///s,t: want unix:///path or tcp://host:port"},
		{inputs{flags: []string{"--relay-from=unix:///s", "--relay-address-order=first"}}, `--relay-address-order: "first" is no order`},
		{inputs{main: sourcesHead + "apiServer: {}\n"}, "/etc/p.yaml:3: apiServer: want either a kubeconfig, or inCluster: true"},
		{inputs{main: sourcesHead + "apiServer: {inCluster: true, clusterUID: 'a b'}\n"}, "/etc/p.yaml:3: apiServer.clusterUID: "},
		{inputs{main: sourcesHead + "apiServer: {inCluster: true}\n", flags: []string{"--api-cluster-uid=a b"}}, "--api-cluster-uid: "},
		{inputs{main: sourcesHead + "files: [{path: /a}]\norder:\n- api\n- disk\n"}, `/etc/p.yaml:4: order: "disk" is no source`},
		{inputs{main: sourcesHead + "applied: {enabled: true}\norder: [applied, file]\n"}, "/etc/p.yaml:4: order: applied is always the last source: leave it out"},
		{inputs{flags: []string{"--applied", "--source-order=applied:x"}}, "--source-order applied:x: applied is always the last source"},
		{inputs{main: sourcesHead + "applied: true\n"}, "/etc/p.yaml:3: applied: want"},
		{inputs{main: sourcesHead + "applied: {enable: true}\n"}, "/etc/p.yaml:3: applied.enable: there is no such field"},
		{inputs{flags: []string{"--source-order=file,file"}}, "--source-order file,file: file is named twice"},
		{inputs{flags: []string{"--nodes=a,*"}}, `--nodes a,*: "*" means all nodes, and stands alone`},
		{inputs{main: sourcesHead + "nodes: [A_B]\n"}, `/etc/p.yaml:3: nodes: "A_B" can't be a node's name`},
		{inputs{main: sourcesHead + "nodes: []\n"}, "/etc/p.yaml:3: nodes: there is none"},
		{inputs{flags: []string{"--kubeconfig=/k", "--in-cluster"}}, "--kubeconfig and --in-cluster don't go together"},
		{inputs{flags: []string{"--http-check-frequency=0s"}}, "must be more than zero"},
		{inputs{flags: []string{"--pod-manifest-path=a=/x", "--pod-manifest-path=a=/y"}},
			"--pod-manifest-path a=/y: there is a source file:a already"},
		{inputs{flags: []string{"--pod-manifest-path=", "--pod-manifest-path=/y"}}, `--pod-manifest-path "": the path is empty`},
		{inputs{flags: []string{"--pod-manifest-path=a="}}, "--pod-manifest-path a=: the path is empty"},
		{inputs{flags: []string{"--manifest-url==http://h"}}, "--manifest-url =http://h: the name is empty"},
		{inputs{flags: []string{"--manifest-url=w=ftp://me:secret@h/?k=secret"}}, "--manifest-url w=ftp://h/?k=…: want http"},
		{inputs{flags: []string{"--manifest-url=https://h", "--manifest-url-header=secret"}},
			"--manifest-url-header: value 1: want [name=]key:value"},
		{inputs{flags: []string{"--manifest-url=https://h", "--manifest-url-header=b=K:secret"}},
			`--manifest-url-header: there is no manifest URL of the name "b"`},
		{inputs{flags: []string{"--manifest-url=https://h", "--manifest-url-header=a b:secret"}},
			"--manifest-url-header: value 1: this can't be the name of a header"},
		{inputs{flags: []string{"--manifest-url-header=Authorization Bearer secret:x"}}, "--manifest-url-header: value 1: this can't be the name"},
		{inputs{flags: []string{"--manifest-url-header=Bearer secret=:x"}}, "--manifest-url-header: value 1: what stands before the equals sign"},
		{inputs{flags: []string{"--manifest-url-header=A:b", "--manifest-url-header=A:secret\x00"}},
			"--manifest-url-header: value 2: the value of A can't be that of a header"},
		{inputs{main: sourcesHead + "urls:\n- url: https://h\n  headers:\n    'Authorization: Bearer secret': [x]\n"},
			"/etc/p.yaml:6: urls[0].headers: this can't be the name of a header"},
		{inputs{main: sourcesHead + "urls: [{url: 'https://h', headers: {Authorization:Bearer secret}}]\n"},
			"/etc/p.yaml:3: urls[0].headers: a header has no value"},
		{inputs{main: sourcesHead + "urls: [{url: 'https://h', headers: {'Authorization: Bearer secret'}}]\n"},
			"/etc/p.yaml:3: urls[0].headers: a header has no value"},
		{inputs{main: sourcesHead + "urls: [{url: 'https://h', headers: {'Authorization: Bearer secret': x}}]\n"},
			"/etc/p.yaml:3: urls[0].headers.…: want a list"},
		{inputs{main: sourcesHead + "urls: [{url: 'https://h', Authorization: Bearer, headers: {A: [*secret]}}]\n"},
			"/etc/p.yaml: this isn't valid YAML: an alias refers"},
		{inputs{main: sourcesHead + "files: [" + strings.Repeat("{name: x, path: /x}, ", 300) + "]\n"}, "and 199 more"},
		{inputs{flags: slices.Repeat([]string{"--pod-manifest-path=/m"}, 257)}, "there are 257 sources; at most 256 can be read"},
	} {
		plan, err := tc.in.plan(t)
		if err == nil {
			t.Errorf("%+v is taken: %v", tc.in, plan)
		} else if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v gives\n%v\nwant\n%s", tc.in, err, tc.want)
		}
	}
}

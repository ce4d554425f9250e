package sourceconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// publicKey is one of P-256.
func publicKey(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "sources", "oci", "signature", "testdata", "cosign", "p256.pub"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestArtifacts: flags and entries make the settings of artifacts, which stand after URLs and before relays.
func TestArtifacts(t *testing.T) {
	files := map[string]string{"/etc/cosign.pub": publicKey(t), "/etc/config.json": `{"auths":{}}`}
	entries := sourcesHead + `oci:
- reference: registry.example/pods:prod
- name: site
  reference: oci://registry.example:5000/site/pods@sha256:` + strings.Repeat("a", 64) + `
  publicKeyFile: cosign.pub
  credentialsFile: config.json
  caFile: /pki/ca.pem
  tokenHost: auth.example
  interval: 2m30s
  monotonic: true
  anyRepository: true
  insecure: true
`
	for _, tc := range []struct {
		name string
		in   inputs
		want string
	}{
		{"entries", inputs{main: entries + "urls: [{url: 'http://h/'}]\nrelays: [{address: 'unix:///s'}]\n", also: files}, `http http://h/
oci oci://registry.example/pods:prod {Reference:registry.example/pods:prod Interval:1m0s}
oci:site oci://registry.example:5000/site/pods@sha256:` + strings.Repeat("a", 64) + ` {Reference:oci://registry.example:5000/site/pods@sha256:` + strings.Repeat("a", 64) +
			` PublicKeyFile:/etc/cosign.pub CredentialsFile:/etc/config.json CAFile:/pki/ca.pem TokenHost:auth.example Interval:2m30s Monotonic:true AnyRepository:true Insecure:true}
relay unix:///s`},
		{"flags over entries", inputs{main: entries, also: files, flags: []string{
			"--oci-artifact=registry.example/pods:one", "--oci-artifact=two=registry.example/pods:two", "--oci-public-key-file=/etc/cosign.pub",
			"--oci-credentials-file=/etc/config.json", "--oci-ca-file=/pki/ca.pem", "--oci-token-host=auth.example:8443", "--oci-check-frequency=5s",
			"--oci-monotonic", "--oci-any-repository", "--oci-insecure", "--strict-manifests",
		}}, `oci oci://registry.example/pods:one {Reference:registry.example/pods:one PublicKeyFile:/etc/cosign.pub CredentialsFile:/etc/config.json CAFile:/pki/ca.pem ` +
			`TokenHost:auth.example:8443 Interval:5s Monotonic:true AnyRepository:true Insecure:true Strict:true}
oci:two oci://registry.example/pods:two {Reference:registry.example/pods:two PublicKeyFile:/etc/cosign.pub CredentialsFile:/etc/config.json CAFile:/pki/ca.pem ` +
			`TokenHost:auth.example:8443 Interval:5s Monotonic:true AnyRepository:true Insecure:true Strict:true}`},
		{"no default path beside it", inputs{flags: []string{"--oci-artifact=registry.example/pods:one"}},
			"oci oci://registry.example/pods:one {Reference:registry.example/pods:one Interval:1m0s}"},
		{"none by a flag", inputs{main: entries, also: files, flags: []string{"--oci-artifact="}}, ""},
		{"a drop-in replaces an entry as a whole", inputs{main: entries, also: files, dropIns: []string{
			sourcesHead + "oci: [{name: site, reference: 'registry.example/pods:other'}]\norder: [oci:site]\n",
		}}, "oci:site oci://registry.example/pods:other {Reference:registry.example/pods:other Interval:1m0s}\n" +
			"oci oci://registry.example/pods:prod {Reference:registry.example/pods:prod Interval:1m0s}"},
	} {
		plan, err := tc.in.plan(t)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if got := plan.artifactText(); got != tc.want || len(plan.Warnings) > 0 {
			t.Errorf("%s: the plan is\n%s\nwant\n%s\nwarnings: %q", tc.name, got, tc.want, plan.Warnings)
		}
	}
}

// artifactText is text with the settings of artifacts that aren't zero.
func (p *Plan) artifactText() string {
	lines := strings.Split(p.text(), "\n")
	for i, s := range p.Sources {
		if s.OCI == nil {
			continue
		}
		var fields []string
		for _, field := range strings.Fields(strings.Trim(fmt.Sprintf("%+v", *s.OCI), "{}")) {
			if !strings.HasSuffix(field, ":") && !strings.HasSuffix(field, ":false") {
				fields = append(fields, field)
			}
		}
		lines[i] += " {" + strings.Join(fields, " ") + "}"
	}
	return strings.Join(lines, "\n")
}

// TestArtifactMistakes: each mistake has its place. A file that can't be used is the source's problem only.
func TestArtifactMistakes(t *testing.T) {
	files := map[string]string{"/etc/cosign.pub": publicKey(t), "/etc/config.json": `{"auths":{}}`, "/etc/bad": "hunter2"}
	entry := func(fields string) inputs {
		return inputs{main: sourcesHead + "oci:\n- reference: registry.example/pods:prod\n" + fields, also: files}
	}
	for _, tc := range []struct {
		name    string
		in      inputs
		mistake string
		problem string
	}{
		{"no reference", inputs{main: sourcesHead + "oci:\n- {name: a}\n"}, "/etc/p.yaml:4: oci[0].reference: want REGISTRY/REPOSITORY:TAG", ""},
		{"a reference without a registry", inputs{flags: []string{"--oci-artifact=pods:prod"}}, "--oci-artifact pods:prod: want REGISTRY/REPOSITORY:TAG", ""},
		{"a name that can't be", inputs{flags: []string{"--oci-artifact=A_b=registry.example/pods:prod"}}, `"A_b" can't be a source's name`, ""},
		{"twice", inputs{flags: []string{"--oci-artifact=registry.example/pods:a", "--oci-artifact=registry.example/pods:b"}}, "there is a source oci already", ""},
		{"an interval that is too short", entry("  interval: 1s\n"), "/etc/p.yaml:5: oci[0].interval: want 5s or more", ""},
		{"an interval that is none", entry("  interval: hunter\n"), "oci[0].interval", ""},
		{"an interval by its flag", inputs{flags: []string{"--oci-artifact=registry.example/pods:a", "--oci-check-frequency=0s"}}, "--oci-check-frequency: want 5s or more", ""},
		{"monotonic without a key", entry("  monotonic: true\n"), "/etc/p.yaml:5: oci[0].monotonic: only a signed time can be believed", ""},
		{"monotonic by its flag", inputs{flags: []string{"--oci-artifact=registry.example/pods:a", "--oci-monotonic"}}, "--oci-monotonic: only a signed time", ""},
		{"any repository without a key", entry("  anyRepository: true\n"), "oci[0].anyRepository: it is for signatures", ""},
		{"a token host without credentials", entry("  tokenHost: auth.example\n"), "oci[0].tokenHost: it is for credentials", ""},
		{"a token host that is a URL", entry("  tokenHost: https://auth.example\n  credentialsFile: config.json\n"), "oci[0].tokenHost: want a host", ""},
		{"an unknown field", entry("  key: x\n"), "oci[0].key", ""},
		{"a missing key", entry("  publicKeyFile: none\n"), "", "/etc/p.yaml:5: oci[0].publicKeyFile: open /etc/none: file does not exist"},
		{"a bad key", entry("  publicKeyFile: bad\n"), "", "oci[0].publicKeyFile: /etc/bad: there is no public key in PEM"},
		{"bad credentials", entry("  credentialsFile: bad\n"), "", "oci[0].credentialsFile: /etc/bad: it is no docker config"},
		{"a bad CA", entry("  caFile: bad\n"), "", "oci[0].caFile: /etc/bad: it holds no certificate in PEM"},
	} {
		plan, err := tc.in.plan(t)
		switch {
		case tc.mistake != "":
			if err == nil || !strings.Contains(err.Error(), tc.mistake) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v; want %q", tc.name, err, tc.mistake)
			}
		case err != nil:
			t.Errorf("%s: %v", tc.name, err)
		default:
			if err := plan.Sources[0].Problem; err == nil || !strings.Contains(err.Error(), tc.problem) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: the problem is %v; want %q", tc.name, err, tc.problem)
			}
		}
	}
}

// TestIdleArtifactFlags: a flag for artifacts without one is a warning.
func TestIdleArtifactFlags(t *testing.T) {
	plan, err := inputs{flags: []string{"--oci-monotonic", "--oci-ca-file=/pki/ca.pem", "--pod-manifest-path=/m"}}.plan(t)
	want := []string{"--oci-ca-file: there is no --oci-artifact that it is for", "--oci-monotonic: there is no --oci-artifact that it is for"}
	if err != nil || !slices.Equal(plan.Warnings, want) {
		t.Errorf("the warnings are %q, %v; want %q", plan.Warnings, err, want)
	}
}

// TestArtifactFingerprint: another setting makes another reader; the content of a file doesn't, as each reading has it.
func TestArtifactFingerprint(t *testing.T) {
	of := func(fields, key string) string {
		plan, err := inputs{main: sourcesHead + "oci:\n- {reference: 'registry.example/pods:prod', " + fields + "}\n", also: map[string]string{"/etc/k": key}}.plan(t)
		if err != nil {
			t.Fatal(err)
		}
		return plan.Sources[0].Fingerprint
	}
	key := publicKey(t)
	before := of("publicKeyFile: k", key)
	if of("publicKeyFile: k", key+key) != before {
		t.Error("the content of the key file makes another reader")
	}
	for _, fields := range []string{"", "publicKeyFile: k, monotonic: true", "publicKeyFile: k, interval: 10s", "publicKeyFile: k, anyRepository: true"} {
		if of(fields, key) == before {
			t.Errorf("%q makes no other reader", fields)
		}
	}
}

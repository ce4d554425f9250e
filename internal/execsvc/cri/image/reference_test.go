package image

import (
	"strings"
	"testing"
)

func TestParseReference(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	for image, want := range map[string]struct{ name, repository string }{
		"busybox":                            {"busybox:latest", "docker.io/library/busybox"},
		"busybox:1.36":                       {"busybox:1.36", "docker.io/library/busybox"},
		"docker.io/busybox":                  {"docker.io/busybox:latest", "docker.io/library/busybox"},
		"index.docker.io/me/app:1":           {"index.docker.io/me/app:1", "docker.io/me/app"},
		"me/app":                             {"me/app:latest", "docker.io/me/app"},
		"localhost/app:x":                    {"localhost/app:x", "localhost/app"},
		"localhost:5000/a/b":                 {"localhost:5000/a/b:latest", "localhost:5000/a/b"},
		"Registry/app:1":                     {"Registry/app:1", "Registry/app"},
		"registry.k8s.io/pause:3.9":          {"registry.k8s.io/pause:3.9", "registry.k8s.io/pause"},
		"[fd00::1]:5000/a:1":                 {"[fd00::1]:5000/a:1", "[fd00::1]:5000/a"},
		"app" + digest:                       {"app" + digest, "docker.io/library/app"},
		"quay.io/app:1" + digest:             {"quay.io/app:1" + digest, "quay.io/app"},
		"sim/a__b-c.d_e":                     {"sim/a__b-c.d_e:latest", "docker.io/sim/a__b-c.d_e"},
		"sha256:" + strings.Repeat("0a", 32): {"sha256:" + strings.Repeat("0a", 32), "sha256"},
		"sha512:12":                          {"sha512:12", "sha512"},
		"sha256":                             {"sha256:latest", "docker.io/library/sha256"},
		"sha256:v1":                          {"sha256:v1", "docker.io/library/sha256"},
		"library/sha256:12":                  {"library/sha256:12", "docker.io/library/sha256"},
		"":                                   {},
		"App":                                {},
		"sim/App":                            {},
		"sim//app":                           {},
		"sim/app:":                           {},
		"sim/app@":                           {},
		"sim/app@sha256:12":                  {},
		"sim/app:" + longText(129):           {},
		"-x.io/app":                          {},
		"x.io:port/app":                      {},
		"http://quay.io/app":                 {},
		strings.Repeat("0a", 32):             {}, // an ID
		" busybox":                           {},
		"busybox\n":                          {},
		"quay.io/" + longText(255):           {},
		"quay.io/" + longText(255-8-1):       {"quay.io/" + longText(246) + ":latest", "quay.io/" + longText(246)},
	} {
		ref, err := parseReference(image)
		if ref.name != want.name || ref.repository != want.repository || (err != nil) != (want.name == "") {
			t.Errorf("%q: %+v, %v; want %+v", image, ref, err, want)
		}
	}
}

func longText(n int) string { return strings.Repeat("a", n) }

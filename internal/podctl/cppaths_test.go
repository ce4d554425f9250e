package podctl

import (
	"strings"
	"testing"
)

// One of the paths is in a container. What begins with a slash or a dot is on this machine.
func TestCopyPaths(t *testing.T) {
	for args, want := range map[string]string{
		"web:/a ./b":            "default/web /a ./b from",
		"kube-system/web:a b":   "kube-system/web a b from",
		"b web:a:b":             "default/web a:b b to",
		"./x:y web:/a":          "default/web /a ./x:y to",
		"/x:y web:/a":           "default/web /a /x:y to",
		"../x:y web:/a":         "default/web /a ../x:y to",
		"web:-x ./-":            "default/web -x ./- from",
		"a b":                   "must be in a container",
		"web:/a web:/b":         "must be a path on this machine",
		"web: b":                "a path is empty",
		":/a b":                 `"" isn't a pod`,
		"a/b/c:/a b":            `"b/c" isn't a pod`,
		"A/web:/a b":            "can't be the name of a namespace",
		"web:/a -":              "- can't be a source or destination",
		"- web:/a":              "- can't be a source or destination",
		"pod/web:/a b":          "pod/web /a b from", // As kubectl has it: pod is a namespace.
		"kube-system/web:/a .":  "kube-system/web /a . from",
		". kube-system/web:/tm": "kube-system/web /tm . to",
	} {
		o := copyOptions{pod: podName{namespace: defaultNamespace}}
		source, destination, _ := strings.Cut(args, " ")
		var got string
		if err := o.setPaths(source, destination); err != nil {
			got = err.Error()
		} else {
			got = strings.Join([]string{o.pod.String(), o.inside, o.local, map[bool]string{true: "to", false: "from"}[o.to]}, " ")
		}
		if !strings.Contains(got, want) {
			t.Errorf("cp %s: %q; want %q", args, got, want)
		}
	}
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "500Mi": 500 << 20, "20G": 20_000_000_000, "1.5Ki": 1536} {
		var b byteSize
		if err := b.Set(text); err != nil || int64(b) != want {
			t.Errorf("%s: %d, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "0", "-1Gi", "many", "1500m", "100E", "1e30"} {
		var b byteSize
		if err := b.Set(text); err == nil {
			t.Errorf("%q is %d bytes", text, b)
		}
	}
	if b := byteSize(defaultMaxBytes); b.String() != "1Gi" {
		t.Errorf("the default is %s", &b)
	}
}

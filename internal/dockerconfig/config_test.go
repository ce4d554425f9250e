package dockerconfig

import (
	"strings"
	"testing"
)

// TestParse: errors don't quote the content.
func TestParse(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{"auths":{"a.io":{"username":"u","password":"p"}}}`, "a.io u p"},
		{`{"auths":{"a.io":{"auth":"dTpwOnE="}}}`, "a.io u p:q"},
		{`{"auths":{"a.io":{"auth":"dTpwOnE"}}}`, "a.io u p:q"},
		{`{"auths":{"a.io":{"auth":"dTpw","username":"x"}}}`, "a.io u p"},
		{`{"auths":{"https://a.io:5000/v2/":{"auth":"dTpw"}},"credsStore":"x"}`, "a.io:5000 u p"},
		{`{}`, ""},
		{``, "error"},
		{`{"auths":["hunter2"]}`, "error"},
		{`{"auths":{"a.io":{"auth":"hunter2!"}}}`, "error"},
		{`{"auths":{"a.io":{"auth":"aHVudGVyMg"}}}`, "error"},
		{`{"auths":{"hunter2:hunter2%zz":{"auth":"dTpw"}}}`, "error"},
	} {
		found, err := Parse([]byte(tc.text))
		var got []string
		for _, l := range found {
			got = append(got, l.Pattern.String()+" "+l.Username+" "+l.Password)
		}
		if err != nil {
			got = []string{"error"}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows what is in it: %v", err)
			}
		}
		if strings.Join(got, ",") != tc.want {
			t.Errorf("%s: %q (%v); want %q", tc.text, got, err, tc.want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, repository string
		want                bool
	}{
		{"quay.io", "quay.io/app", true},
		{"https://quay.io/v1/", "quay.io/app", true},
		{"quay.io/", "quay.io/app", true},
		{"quay.io", "quay.com/app", false},
		{"quay.io", "a.quay.io/app", false},
		{"*.quay.io", "a.quay.io/app", true},
		{"*.quay.io", "a.b.quay.io/app", false},
		{"*.io", "quay.io/app", true},
		{"app*.k8s.io", "app1.k8s.io/x", true},
		{"*.*.registry.io", "a.b.registry.io/x", true},
		{"quay.io/team", "quay.io/team/app", true},
		{"quay.io/team", "quay.io/app", false},
		{"quay.io:5000", "quay.io/app", false},
		{"quay.io", "quay.io:5000/app", false},
		{"*.io:5000/team", "quay.io:5000/team/app", true},
		{"docker.io", "docker.io/library/busybox", true},
		{"index.docker.io/v1/", "docker.io/me/app", true},
		{"docker.io/me", "docker.io/me/app", true},
		{"[fd00::1]:5000", "[fd00::1]:5000/app", true},
		{"localhost", "localhost/app", true},
		{"[a.io", "a.io/app", false},
	} {
		p, err := ParsePattern(tc.pattern)
		if got := err == nil && p.Matches(tc.repository); got != tc.want {
			t.Errorf("%s matches %s: %t (%v); want %t", tc.pattern, tc.repository, got, err, tc.want)
		}
	}
}

// TestChoose: the most specific login of a repository is the first.
func TestChoose(t *testing.T) {
	entries, err := Parse([]byte(`{"auths":{"*.io":{"username":"glob"},"a.io":{"username":"registry"},"a.io/team":{"username":"team"},"b.io":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range Choose(entries, "a.io/team/app") {
		got = append(got, e.Username)
	}
	if strings.Join(got, " ") != "team registry glob" {
		t.Errorf("the logins are %q", got)
	}
	if got := Choose(entries, "c.com/app"); len(got) != 0 {
		t.Errorf("another registry has %v", got)
	}
}

package http

import (
	"net/url"
	"testing"
)

func TestLocation(t *testing.T) {
	for raw, want := range map[string]string{
		"https://config.example/pods":                              "https://config.example/pods",
		"https://admin:hunter2@config.example:8443/a%2fb?x#part":   "https://config.example:8443/a%2fb?…",
		"http://config.example/?node=n1&token=hunter2&sig=a=b&one": "http://config.example/?node=…&token=…&sig=…&…",
		"https://admin:hunter2/@host:x":                            "(invalid URL)",
	} {
		if got := Location(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		own, other string
		want       bool
	}{
		{"http://a", "http://a:80/x", true},
		{"http://a", "http://A/", true},
		{"http://a", "https://a/", true},
		{"http://a:80", "https://a:443/", true},
		{"http://a:8080", "https://a/", false},
		{"http://a:8080", "https://a:8080/", false},
		{"http://a", "http://a:81", false},
		{"https://a", "http://a", false},
		{"https://a", "https://a:443", true},
		{"https://a", "https://b.a", false},
		{"https://a", "https://b", false},
	} {
		own, _ := url.Parse(c.own)
		other, _ := url.Parse(c.other)
		if got := sameHost(own, other); got != c.want {
			t.Errorf("%s and %s: %v", c.own, c.other, got)
		}
	}
}

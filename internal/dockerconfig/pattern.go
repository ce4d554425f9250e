package dockerconfig

import (
	"net"
	"net/url"
	"path"
	"strings"
)

// Pattern matches repositories: "quay.io", "*.azurecr.io", "registry.example:5000/team".
type Pattern struct {
	// text is the whole pattern; host may have globs in each of its labels; path is a prefix of a repository's path.
	text       string
	host       []string
	port, path string
}

// ParsePattern parses a registry of a docker config, or an entry of matchImages. It ignores a scheme, and the version
// that docker puts into the path.
func ParsePattern(text string) (Pattern, error) {
	if !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://") {
		text = "https://" + text
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return Pattern{}, err
	}
	p := Pattern{path: parsed.Path}
	if strings.HasPrefix(p.path, "/v1/") || strings.HasPrefix(p.path, "/v2/") {
		p.path = p.path[len("/v1"):]
	}
	if p.path == "/" {
		p.path = ""
	}
	host := parsed.Host
	if host == "index.docker.io" {
		host = "docker.io"
	}
	p.text = host + p.path
	if name, port, err := net.SplitHostPort(host); err == nil {
		host, p.port = name, port
	}
	p.host = strings.Split(host, ".")
	return p, nil
}

// Matches reports whether the pattern matches the repository: "docker.io/library/busybox".
func (p Pattern) Matches(repository string) bool {
	registry, rest, _ := strings.Cut(repository, "/")
	name, port, err := net.SplitHostPort(registry)
	if err != nil {
		name, port = registry, ""
	}
	labels := strings.Split(name, ".")
	if port != p.port || len(labels) != len(p.host) || !strings.HasPrefix("/"+rest, p.path) {
		return false
	}
	for i, glob := range p.host {
		if ok, err := path.Match(glob, labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// String returns the pattern as it is compared: without a scheme and a version.
func (p Pattern) String() string { return p.text }

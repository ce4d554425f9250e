package credential

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// pattern matches repositories: "quay.io", "*.azurecr.io", "registry.example:5000/team".
type pattern struct {
	// text is the whole pattern; host may have globs in each of its labels; path is a prefix of a repository's path.
	text       string
	host       []string
	port, path string
}

// parsePattern parses a registry of a docker config, or an entry of matchImages. It ignores a scheme, and the version
// that docker puts into the path.
func parsePattern(text string) (pattern, error) {
	if !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://") {
		text = "https://" + text
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return pattern{}, err
	}
	p := pattern{path: parsed.Path}
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

// matches reports whether the pattern matches the repository: "docker.io/library/busybox".
func (p pattern) matches(repository string) bool {
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

// login is a name and a password for the repositories that a pattern matches.
type login struct {
	pattern                   pattern
	username, password, email string
	// secret and account are the origin of a login that isn't for all pods of the node. secret has no hash.
	secret  *imageaccess.Secret
	account *imageaccess.Account
}

// hash returns the login's hash in the records of pulls, in which it must be the kubelet's.
func (l login) hash() string {
	text, _ := json.Marshal(struct { //nolint:errchkjson // It has only strings.
		Username string `json:"username,omitempty"`
		Password string `json:"password,omitempty"`
		Email    string `json:"email,omitempty"`
	}{l.username, l.password, l.email})
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// tracked returns the login with its origin.
func (l login) tracked() imageaccess.Login {
	out := imageaccess.Login{Username: l.username, Password: l.password, Account: l.account}
	if l.secret != nil {
		secret := *l.secret
		secret.CredentialHash = l.hash()
		out.Secret = &secret
	}
	return out
}

// choose returns the logins that match, the most specific pattern first: longer ones before their prefixes, and those
// without a glob before those with one. Those of one pattern stay in their order.
func choose(logins []login, repository string) []imageaccess.Login {
	matching := slices.DeleteFunc(slices.Clone(logins), func(l login) bool { return !l.pattern.matches(repository) })
	slices.SortStableFunc(matching, func(a, b login) int { return strings.Compare(b.pattern.text, a.pattern.text) })
	var out []imageaccess.Login
	for _, l := range matching {
		out = append(out, l.tracked())
	}
	return out
}

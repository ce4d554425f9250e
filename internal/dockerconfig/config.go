package dockerconfig

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// dockerEntry is the entry of a registry in a docker config: a name and a password, or both in base64.
type dockerEntry struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Auth     string `json:"auth"`
	Email    string `json:"email"`
}

// Entry is a name and a password for the repositories that a pattern matches.
type Entry struct {
	Pattern                   Pattern
	Username, Password, Email string
}

// ErrInvalid is wrapped by each error for an invalid docker config: the decoder's own errors may quote it.
var ErrInvalid = errors.New("it is no docker config")

// Parse parses a config.json (".dockerconfigjson").
func Parse(data []byte) ([]Entry, error) {
	var config struct {
		Auths map[string]dockerEntry `json:"auths"`
	}
	if json.Unmarshal(data, &config) != nil {
		return nil, ErrInvalid
	}
	return decode(config.Auths)
}

// ParseLegacy parses its older form (".dockercfg"), which has the registries at the top level.
func ParseLegacy(data []byte) ([]Entry, error) {
	var entries map[string]dockerEntry
	if json.Unmarshal(data, &entries) != nil {
		return nil, ErrInvalid
	}
	return decode(entries)
}

// decode returns the entries in the order of their registries.
func decode(entries map[string]dockerEntry) ([]Entry, error) {
	var out []Entry
	for _, registry := range slices.Sorted(maps.Keys(entries)) {
		pattern, err := ParsePattern(registry)
		if err != nil {
			return nil, fmt.Errorf("%w: one of its registries is no URL", ErrInvalid)
		}
		username, password, err := entries[registry].decode()
		if err != nil {
			return nil, fmt.Errorf("%w: auth of %s: %w", ErrInvalid, pattern.text, err)
		}
		out = append(out, Entry{Pattern: pattern, Username: username, Password: password, Email: entries[registry].Email})
	}
	return out, nil
}

// decode returns the name and the password. It accepts base64 with and without padding, as docker and others write it.
func (e dockerEntry) decode() (username, password string, err error) {
	if e.Auth == "" {
		return e.Username, e.Password, nil
	}
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(e.Auth), "="))
	if err != nil {
		return "", "", errors.New("it is no base64")
	}
	username, password, ok := strings.Cut(strings.TrimRight(string(text), "\x00"), ":")
	if !ok {
		return "", "", errors.New("it has no colon between name and password")
	}
	return username, password, nil
}

// Choose returns the entries that match a repository, the most specific pattern first: longer ones before their prefixes,
// and those without a glob before those with one. Those of one pattern stay in their order.
func Choose(entries []Entry, repository string) []Entry {
	matching := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !e.Pattern.Matches(repository) })
	slices.SortStableFunc(matching, func(a, b Entry) int { return strings.Compare(b.Pattern.text, a.Pattern.text) })
	return matching
}

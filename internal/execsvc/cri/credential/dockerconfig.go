package credential

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// dockerEntry is the entry of a registry in a docker config: a name and a password, or both in base64.
type dockerEntry struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Auth     string `json:"auth"`
	Email    string `json:"email"`
}

// errNotDocker is the only error for an invalid docker config: the decoder's own errors may quote it.
var errNotDocker = errors.New("it is no docker config")

// parseDockerConfig parses a config.json (".dockerconfigjson").
func parseDockerConfig(data []byte) ([]login, error) {
	var config struct {
		Auths map[string]dockerEntry `json:"auths"`
	}
	if json.Unmarshal(data, &config) != nil {
		return nil, errNotDocker
	}
	return logins(config.Auths)
}

// parseDockercfg parses its older form (".dockercfg"), which has the registries at the top level.
func parseDockercfg(data []byte) ([]login, error) {
	var entries map[string]dockerEntry
	if json.Unmarshal(data, &entries) != nil {
		return nil, errNotDocker
	}
	return logins(entries)
}

func logins(entries map[string]dockerEntry) ([]login, error) {
	var out []login
	for _, registry := range slices.Sorted(maps.Keys(entries)) {
		pattern, err := parsePattern(registry)
		if err != nil {
			return nil, fmt.Errorf("%w: one of its registries is no URL", errNotDocker)
		}
		username, password, err := entries[registry].decode()
		if err != nil {
			return nil, fmt.Errorf("%w: auth of %s: %w", errNotDocker, pattern.text, err)
		}
		out = append(out, login{pattern: pattern, username: username, password: password, email: entries[registry].Email})
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

// parseSecret parses a pull secret.
func parseSecret(secret *v1.Secret) ([]login, error) {
	switch secret.Type {
	case v1.SecretTypeDockerConfigJson:
		return parseDockerConfig(secret.Data[v1.DockerConfigJsonKey])
	case v1.SecretTypeDockercfg:
		return parseDockercfg(secret.Data[v1.DockerConfigKey])
	}
	return nil, fmt.Errorf("its type is %q; %s or %s would do", secret.Type, v1.SecretTypeDockerConfigJson, v1.SecretTypeDockercfg)
}

// DefaultFiles returns the paths of the node's docker config, in the kubelet's order: in the daemon's directory, and in
// the home of its user.
func DefaultFiles(rootDir string) []string {
	files := []string{filepath.Join(rootDir, "config.json"), filepath.Join(rootDir, ".dockercfg")}
	if home := os.Getenv("HOME"); home != "" {
		files = append(files, filepath.Join(home, ".docker", "config.json"), filepath.Join(home, ".dockercfg"))
	}
	return files
}

// readFile reads a docker config file by its name. A missing file has no logins.
func readFile(path string) ([]login, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if filepath.Base(path) == ".dockercfg" {
		return parseDockercfg(data)
	}
	return parseDockerConfig(data)
}

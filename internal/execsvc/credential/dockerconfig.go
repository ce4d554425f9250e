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

// dockerEntry is what a docker config has for a registry: a name and a password, or both in base64.
type dockerEntry struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Auth     string `json:"auth"`
}

// errNotDocker is all that is said of a docker config that can't be read: a text of the decoder's may hold a piece of it.
var errNotDocker = errors.New("it is no docker config")

// parseDockerConfig reads a config.json (".dockerconfigjson").
func parseDockerConfig(data []byte) ([]login, error) {
	var config struct {
		Auths map[string]dockerEntry `json:"auths"`
	}
	if json.Unmarshal(data, &config) != nil {
		return nil, errNotDocker
	}
	return logins(config.Auths)
}

// parseDockercfg reads the older form of it (".dockercfg"), which has the registries at its top.
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
		out = append(out, login{pattern, username, password})
	}
	return out, nil
}

// decode returns the name and the password. Base64 is taken with and without its padding, as docker and others write it.
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

// parseSecret reads a pull secret.
func parseSecret(secret *v1.Secret) ([]login, error) {
	switch secret.Type {
	case v1.SecretTypeDockerConfigJson:
		return parseDockerConfig(secret.Data[v1.DockerConfigJsonKey])
	case v1.SecretTypeDockercfg:
		return parseDockercfg(secret.Data[v1.DockerConfigKey])
	}
	return nil, fmt.Errorf("its type is %q; %s or %s would do", secret.Type, v1.SecretTypeDockerConfigJson, v1.SecretTypeDockercfg)
}

// DefaultFiles are where the node's docker config is looked for, as the kubelet does, in order: in the daemon's directory, and in the
// home of its user.
func DefaultFiles(rootDir string) []string {
	files := []string{filepath.Join(rootDir, "config.json"), filepath.Join(rootDir, ".dockercfg")}
	if home := os.Getenv("HOME"); home != "" {
		files = append(files, filepath.Join(home, ".docker", "config.json"), filepath.Join(home, ".dockercfg"))
	}
	return files
}

// readFile reads a docker config file by its name. One that isn't there has no logins.
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

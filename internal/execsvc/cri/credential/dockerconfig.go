package credential

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/dockerconfig"
)

// logins returns the entries of a docker config.
func logins(entries []dockerconfig.Entry, err error) ([]login, error) {
	var out []login
	for _, e := range entries {
		out = append(out, login{pattern: e.Pattern, username: e.Username, password: e.Password, email: e.Email})
	}
	return out, err
}

// parseSecret parses a pull secret.
func parseSecret(secret *v1.Secret) ([]login, error) {
	switch secret.Type {
	case v1.SecretTypeDockerConfigJson:
		return logins(dockerconfig.Parse(secret.Data[v1.DockerConfigJsonKey]))
	case v1.SecretTypeDockercfg:
		return logins(dockerconfig.ParseLegacy(secret.Data[v1.DockerConfigKey]))
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
		return logins(dockerconfig.ParseLegacy(data))
	}
	return logins(dockerconfig.Parse(data))
}

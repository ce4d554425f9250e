package oci

import (
	"context"
	"errors"
	"fmt"

	"github.com/podstream/podstream/internal/dockerconfig"
	"github.com/podstream/podstream/internal/openfile"
	"github.com/podstream/podstream/internal/sources/oci/registry"
	"github.com/podstream/podstream/internal/sources/oci/signature"
)

// maxFile is far more than any key or docker config has, in bytes.
const maxFile = 1 << 20

// keys reads the public keys. Nil: none are configured. Unlike other files, a key file that can't be used doesn't leave
// its previous content in use: its owner may have withdrawn a key.
func (c *Config) keys() (*signature.Keys, error) {
	if c.PublicKeyFile == "" {
		return nil, nil
	}
	data, err := openfile.Read(context.Background(), c.PublicKeyFile, maxFile)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	keys, err := signature.ParseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("public key: %s: %w", c.PublicKeyFile, err)
	}
	return keys, nil
}

// login reads the credentials for a repository.
func (c *Config) login(repository string) (registry.Login, error) {
	if c.CredentialsFile == "" {
		return registry.Login{}, nil
	}
	data, err := openfile.Read(context.Background(), c.CredentialsFile, maxFile)
	if err != nil {
		return registry.Login{}, fmt.Errorf("credentials: %w", err)
	}
	entries, err := dockerconfig.Parse(data)
	if err != nil {
		return registry.Login{}, fmt.Errorf("credentials: %s: %w", c.CredentialsFile, err)
	}
	found := dockerconfig.Choose(entries, repository)
	if len(found) == 0 || found[0].Username == "" && found[0].Password == "" {
		return registry.Login{}, fmt.Errorf("credentials: %s: %w", c.CredentialsFile, errors.New("it has none for the repository"))
	}
	return registry.Login{Username: found[0].Username, Password: found[0].Password}, nil
}

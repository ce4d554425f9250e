package sourceconfig

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/dockerconfig"
	ocisource "github.com/podstream/podstream/internal/sources/oci"
	"github.com/podstream/podstream/internal/sources/oci/registry"
	"github.com/podstream/podstream/internal/sources/oci/signature"
)

// leastInterval is the least time between readings of an artifact: a registry is for many nodes.
const leastInterval = 5 * time.Second

// artifactSettings are the flags for artifacts.
type artifactSettings struct {
	references []string
	common     OCISettings
}

// artifactFlags are the flags that apply to each --oci-artifact.
var artifactFlags = []string{
	"oci-public-key-file", "oci-credentials-file", "oci-ca-file", "oci-token-host", "oci-check-frequency", "oci-monotonic", "oci-any-repository", "oci-insecure",
}

func (a *artifactSettings) addFlags(fs *pflag.FlagSet) {
	c := &a.common
	fs.StringArrayVar(&a.references, "oci-artifact", nil,
		"`[name=]reference` of an OCI artifact with manifests, registry/repository:tag or with @digest; repeatable: the source is \"oci\", with "+
			"a name \"oci:name\"; the other flags of oci apply to each of these")
	fs.StringVar(&c.PublicKeyFile, "oci-public-key-file", "",
		"`file` of the public keys, in PEM, one of which must have signed the artifact with cosign; empty: signatures aren't looked at")
	fs.BoolVar(&c.Monotonic, "oci-monotonic", false,
		"refuse a signed artifact that was created earlier than one that was accepted, by its annotation org.opencontainers.image.created")
	fs.BoolVar(&c.AnyRepository, "oci-any-repository", false,
		"accept signatures that are for another repository, or for none: for keys that sign nothing else")
	fs.StringVar(&c.CredentialsFile, "oci-credentials-file", "", "`file` of the registry's credentials, docker's config.json, as the kubelet reads it")
	fs.StringVar(&c.TokenHost, "oci-token-host", "", "`host` beside the registry that may have the credentials, as its tokens are from there")
	fs.StringVar(&c.CAFile, "oci-ca-file", "", "`file` of the CAs of the registry's certificate; default: the system's")
	fs.BoolVar(&c.Insecure, "oci-insecure", false, "use plain HTTP if the registry has no HTTPS; on loopback, that is always done")
	fs.DurationVar(&c.Interval, "oci-check-frequency", ocisource.DefaultInterval, "`time` between readings of the artifacts' digests")
}

// artifactFields are the flags that stand for the fields of an entry.
var artifactFields = map[string]string{
	"publicKeyFile": "oci-public-key-file", "credentialsFile": "oci-credentials-file", "caFile": "oci-ca-file", "tokenHost": "oci-token-host",
	"interval": "oci-check-frequency", "monotonic": "oci-monotonic", "anyRepository": "oci-any-repository", "insecure": "oci-insecure",
}

func (f *Flags) artifactDrafts() ([]draft, error) {
	return perValue("oci-artifact", f.artifacts.references, artifactFields, func(reference string) draft {
		settings := f.artifacts.common
		settings.Reference = reference
		return draft{kind: OCI, oci: &settings}
	})
}

func (c *checker) oci(d draft, s *Source) {
	settings := *d.oci
	settings.Strict = c.plan.Strict
	s.OCI = &settings
	ref, err := ocisource.ParseReference(settings.Reference, settings.Insecure)
	if err != nil {
		c.wrong(d, "reference", err.Error())
	} else {
		s.Location = ocisource.Location(ref)
	}
	switch {
	case settings.Interval < leastInterval:
		c.wrong(d, "interval", fmt.Sprintf("want %v or more", leastInterval))
	case settings.Monotonic && settings.PublicKeyFile == "":
		c.wrong(d, "monotonic", "only a signed time can be believed: give a public key")
	case settings.AnyRepository && settings.PublicKeyFile == "":
		c.wrong(d, "anyRepository", "it is for signatures: give a public key")
	}
	if settings.TokenHost != "" {
		if err := registry.CheckTokenHost(settings.TokenHost); err != nil {
			c.wrong(d, "tokenHost", err.Error())
		}
		if settings.CredentialsFile == "" {
			c.wrong(d, "tokenHost", "it is for credentials: give their file")
		}
	}
	c.ociFile(d, "publicKeyFile", settings.PublicKeyFile, func(data []byte) error { _, err := signature.ParseKeys(data); return err })
	c.ociFile(d, "credentialsFile", settings.CredentialsFile, func(data []byte) error { _, err := dockerconfig.Parse(data); return err })
	c.ociFile(d, "caFile", settings.CAFile, func(data []byte) error {
		if !x509.NewCertPool().AppendCertsFromPEM(data) {
			return fmt.Errorf("it holds no certificate in PEM")
		}
		return nil
	})
}

// ociFile reads a file, if it is set.
func (c *checker) ociFile(d draft, field, path string, check func([]byte) error) {
	if path == "" {
		return
	}
	data, err := c.readFile(path)
	if err == nil {
		if err = check(data); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		c.unusable(d, field, err.Error())
	}
}

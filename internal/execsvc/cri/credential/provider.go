package credential

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	kubeletv1 "k8s.io/kubelet/config/v1"
	"sigs.k8s.io/yaml"
)

// The API versions of the configuration, and those of requests to plugins. The fields in use are the same in all; only v1 has
// tokens.
var (
	configVersions = []string{"kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"}
	pluginVersions = []string{
		"credentialprovider.kubelet.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1beta1", "credentialprovider.kubelet.k8s.io/v1alpha1",
	}
)

// readProviders reads a CredentialProviderConfig: a file, or all .json, .yaml and .yml files of a directory in the
// order of their names. With noTokens, one that has tokenAttributes is an error. The hash is the kubelet's, "sha256:HEX",
// of all files.
func readProviders(path string, noTokens bool) (list []kubeletv1.CredentialProvider, hash string, err error) {
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return nil, "", err
	} else if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, "", err
		}
		files = nil
		for _, entry := range entries {
			if ext := filepath.Ext(entry.Name()); !entry.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, ext) {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	var providers []kubeletv1.CredentialProvider
	sum := sha256.New()
	seen := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, "", err
		}
		_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		_, _ = sum.Write(data)
		found, err := parseProviders(data)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", file, err)
		}
		for _, p := range found {
			if err := checkProvider(p, noTokens); err != nil {
				return nil, "", fmt.Errorf("%s: provider %q: %w", file, p.Name, err)
			}
			if seen[p.Name] {
				return nil, "", fmt.Errorf("%s: provider %q is there twice", file, p.Name)
			}
			seen[p.Name] = true
		}
		providers = append(providers, found...)
	}
	if len(providers) == 0 {
		return nil, "", fmt.Errorf("%s has no providers", path)
	}
	return providers, fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
}

func parseProviders(data []byte) ([]kubeletv1.CredentialProvider, error) {
	var config kubeletv1.CredentialProviderConfig
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return nil, err
	}
	if config.Kind != "CredentialProviderConfig" || !slices.Contains(configVersions, config.APIVersion) {
		return nil, fmt.Errorf("it is %q of %q; want CredentialProviderConfig of one of %s",
			config.Kind, config.APIVersion, strings.Join(configVersions, ", "))
	}
	return config.Providers, nil
}

// checkProvider validates a provider by the kubelet's rules. Its patterns are validated where they are parsed.
func checkProvider(p kubeletv1.CredentialProvider, noTokens bool) error {
	switch {
	case p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/ "):
		return errors.New("name must be that of a file, without slashes and spaces")
	case !slices.Contains(pluginVersions, p.APIVersion):
		return fmt.Errorf("apiVersion %q must be one of %s", p.APIVersion, strings.Join(pluginVersions, ", "))
	case len(p.MatchImages) == 0:
		return errors.New("matchImages must name at least one image")
	case p.DefaultCacheDuration == nil:
		return errors.New("defaultCacheDuration is required")
	case p.DefaultCacheDuration.Duration < 0:
		return errors.New("defaultCacheDuration must not be negative")
	}
	if p.TokenAttributes == nil {
		return nil
	}
	if noTokens {
		return errors.New("tokenAttributes needs the feature gate KubeletServiceAccountTokenForCredentialProviders")
	}
	if err := checkTokens(p.TokenAttributes, p.APIVersion); err != nil {
		return fmt.Errorf("tokenAttributes: %w", err)
	}
	return nil
}

// checkTokens validates tokenAttributes by the kubelet's rules.
func checkTokens(t *kubeletv1.ServiceAccountTokenAttributes, apiVersion string) error {
	types := []kubeletv1.ServiceAccountTokenCacheType{
		kubeletv1.ServiceAccountServiceAccountTokenCacheType, kubeletv1.TokenServiceAccountTokenCacheType,
	}
	switch {
	case t.ServiceAccountTokenAudience == "":
		return errors.New("serviceAccountTokenAudience is required")
	case t.RequireServiceAccount == nil:
		return errors.New("requireServiceAccount is required")
	case !slices.Contains(types, t.CacheType):
		return fmt.Errorf("cacheType %q must be %s or %s", t.CacheType, types[0], types[1])
	case apiVersion != pluginVersions[0]:
		return fmt.Errorf("only plugins of %s receive tokens", pluginVersions[0])
	case !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0:
		return errors.New("requireServiceAccount must be true if there are requiredServiceAccountAnnotationKeys")
	}
	seen := map[string]bool{}
	for _, key := range slices.Concat(t.RequiredServiceAccountAnnotationKeys, t.OptionalServiceAccountAnnotationKeys) {
		if messages := validation.IsQualifiedName(strings.ToLower(key)); len(messages) > 0 {
			return fmt.Errorf("the annotation key %q: %s", key, strings.Join(messages, "; "))
		}
		if seen[key] {
			return fmt.Errorf("the annotation key %q is there twice", key)
		}
		seen[key] = true
	}
	return nil
}

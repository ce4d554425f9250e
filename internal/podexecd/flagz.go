package podexecd

import (
	"net/url"
	"slices"

	"github.com/spf13/pflag"
)

// classified is shown instead of a secret value, as the kubelet does.
const classified = "CLASSIFIED"

// secretFlags are the flags whose values may have credentials: headers of requests, and their URLs.
var secretFlags = []string{"manifest-url", "manifest-url-header"}

// flagValues returns the flags with their values. Secret ones are masked: those in secretFlags, those with the annotation
// that the kubelet uses, and URLs with a password.
func flagValues(fs *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	fs.VisitAll(func(f *pflag.Flag) {
		value := f.Value.String()
		if isSecret(f, value) {
			value = classified
		}
		out[f.Name] = value
	})
	return out
}

func isSecret(f *pflag.Flag, value string) bool {
	if value == "" || value == "[]" {
		return false
	}
	if _, marked := f.Annotations["classified"]; marked || slices.Contains(secretFlags, f.Name) {
		return true
	}
	u, err := url.Parse(value)
	return err == nil && u.User != nil
}

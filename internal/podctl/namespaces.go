package podctl

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// checkNamespace refuses a name that no namespace can have.
func checkNamespace(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("%q can't be the name of a namespace", name)
	}
	return nil
}

// namespaceList is the flag with the namespaces of a list. Empty means all.
type namespaceList []string

// String implements pflag.Value.
func (l *namespaceList) String() string { return strings.Join(*l, ",") }

// Type implements pflag.Value.
func (l *namespaceList) Type() string { return "namespaces" }

// Set implements pflag.Value. A repeated flag adds to the list.
func (l *namespaceList) Set(s string) error {
	if s == "" {
		*l = nil
		return nil
	}
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		if err := checkNamespace(name); err != nil {
			return err
		}
		*l = append(*l, name)
	}
	return nil
}

// oneNamespace is the flag with the namespace of a command's one pod.
type oneNamespace string

// defaultNamespace is kubectl's.
const defaultNamespace oneNamespace = "default"

// String implements pflag.Value.
func (n *oneNamespace) String() string { return string(*n) }

// Type implements pflag.Value.
func (n *oneNamespace) Type() string { return "namespace" }

// Set implements pflag.Value.
func (n *oneNamespace) Set(s string) error {
	if s == "" {
		*n = defaultNamespace
		return nil
	}
	if strings.Contains(s, ",") {
		return errors.New("want one namespace: the command is about one pod")
	}
	if err := checkNamespace(s); err != nil {
		return err
	}
	*n = oneNamespace(s)
	return nil
}

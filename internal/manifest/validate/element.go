package validate

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxUID is the longest UID that an author may set: it becomes the name of directories and a label of the runtime's.
	maxUID = 128
	// maxElement is the longest UID, namespace or name of a received pod: the longest name that Kubernetes allows.
	maxElement = validation.DNS1123SubdomainMaxLength
)

// PathElement checks a UID, namespace or name of a received pod. It returns what the value must be.
func PathElement(value string) []string { return checkElement(value, maxElement) }

// checkElement checks a value that becomes an element of paths on every consumer's disk.
func checkElement(value string, most int) []string {
	if len(value) > most {
		return []string{validation.MaxLenError(most)}
	}
	if value == "." || value == ".." || !utf8.ValidString(value) || strings.ContainsFunc(value, func(c rune) bool {
		return c == '/' || c == '\\' || unicode.IsSpace(c) || !unicode.IsPrint(c)
	}) {
		return []string{"must be fit for the name of a directory: without slashes, white space and control characters, and not . or .."}
	}
	return nil
}

package fault

import (
	"regexp"
	"strings"
	"unicode"
)

// Hidden replaces what isn't shown.
const Hidden = "…"

const (
	// maxForeignText bounds the text of an error from outside this package, in bytes: a server may have written a
	// part of it.
	maxForeignText = 200
	// maxHost bounds the shown name of a host, in bytes.
	maxHost = 100
)

// Secrets removes secrets from texts. Make it with NewSecrets; the zero value has none.
type Secrets struct{ replacer *strings.Replacer }

// NewSecrets hides the values, and each of their words, such as what follows "Bearer". Words of less than 4 bytes
// aren't hidden.
func NewSecrets(values ...string) Secrets {
	var pairs []string
	for _, value := range values {
		for _, secret := range append([]string{value}, strings.Fields(value)...) {
			if len(secret) >= 4 {
				pairs = append(pairs, secret, Hidden)
			}
		}
	}
	return Secrets{strings.NewReplacer(pairs...)}
}

func (s Secrets) hide(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// userinfo matches user and password of a URL, as in an error about a proxy.
var userinfo = regexp.MustCompile(`//[^/\s]*@`)

// quoted matches what a text quotes: mostly what the server sent, which may change each time.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// address matches what differs between connections in the texts of package net.
var address = regexp.MustCompile(`\S+:\d+->`)

// Clean makes an error's text fit for all callers: no secrets, no quotes, one line, and bounded.
func (s Secrets) Clean(text string) string {
	text = quoted.ReplaceAllString(text, Hidden)
	text = address.ReplaceAllString(userinfo.ReplaceAllString(text, "//"), "")
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s.hide(text), "?"))
	return cut(text, maxForeignText)
}

// Host makes a host's name fit for all callers: a server may have chosen it, and a URL may have any bytes in it.
func (s Secrets) Host(name string) string {
	name = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(s.hide(name), "?"))
	return cut(name, maxHost)
}

// cut returns at most so many bytes of a text.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(Hidden)], "") + Hidden
}

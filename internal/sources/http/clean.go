package http

import (
	"regexp"
	"strings"
	"unicode"
)

const (
	// maxForeignText is the most bytes of an error's text that this package didn't write itself: a server may have a part in it.
	maxForeignText = 200
	// maxHost is the most bytes of a host's name that are shown.
	maxHost = 100
)

// secrets takes out of texts what nobody may see.
type secrets struct{ replacer *strings.Replacer }

// newSecrets hides the values, and each of their words: what follows "Bearer", say. What is shorter than 4 bytes is left.
func newSecrets(values ...string) secrets {
	var pairs []string
	for _, value := range values {
		for _, secret := range append([]string{value}, strings.Fields(value)...) {
			if len(secret) >= 4 {
				pairs = append(pairs, secret, hiddenValue)
			}
		}
	}
	return secrets{strings.NewReplacer(pairs...)}
}

// userinfo is that of a URL, as in the complaint about a proxy's.
var userinfo = regexp.MustCompile(`//[^/\s]*@`)

// quoted is what a text quotes: mostly what the server sent, which may be another thing each time.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// address is what differs from one connection to the next in the texts of package net.
var address = regexp.MustCompile(`\S+:\d+->`)

// clean makes an error's text fit for everybody: no secrets, nothing quoted, one line, and not too long.
func (s secrets) clean(text string) string {
	text = quoted.ReplaceAllString(text, hiddenValue)
	text = address.ReplaceAllString(userinfo.ReplaceAllString(text, "//"), "")
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s.replacer.Replace(text), "?"))
	return cut(text, maxForeignText)
}

// host makes a host's name fit for everybody: a server may have chosen it, and a URL may have any bytes in it.
func (s secrets) host(name string) string {
	name = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(s.replacer.Replace(name), "?"))
	return cut(name, maxHost)
}

// cut leaves at most so many bytes of a text.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(hiddenValue)], "") + hiddenValue
}

package csi

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// stripped replaces a secret, as in other programs for CSI.
const stripped = "***stripped***"

// shortSecret is the length in bytes below which a secret is replaced only where it is a word: a value such as "1" or
// "on" is a part of many words.
const shortSecret = 6

// maxLines is the number of lines of a secret that are also replaced if they stand alone.
const maxLines = 100

// secretsOf returns the values of the request's fields that the specification marks as secret, in all spellings that a driver's
// message might have, the longest first.
func secretsOf(request proto.Message) []string {
	var all []string
	request.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if secret, _ := proto.GetExtension(field.Options(), csipb.E_CsiSecret).(bool); !secret || !field.IsMap() {
			return true
		}
		value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
			all = append(all, spellings(v.String())...)
			return true
		})
		return true
	})
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(all)
}

// spellings returns a secret as a program may print it: as it is, without space around it, each of its lines, quoted,
// and encoded.
func spellings(secret string) (all []string) {
	forms := []string{secret, strings.TrimSpace(secret)}
	for line := range strings.Lines(secret) {
		if len(forms) < maxLines {
			forms = append(forms, strings.TrimRight(line, "\n"))
		}
	}
	for _, form := range forms {
		form = strings.TrimRight(form, "\r")
		if strings.TrimSpace(form) == "" {
			continue
		}
		quoted := strconv.Quote(form)
		text, _ := json.Marshal(form)
		all = append(all, form, quoted[1:len(quoted)-1], string(text[1:len(text)-1]), url.QueryEscape(form), url.PathEscape(form),
			base64.StdEncoding.EncodeToString([]byte(form)), base64.URLEncoding.EncodeToString([]byte(form)))
	}
	return all
}

// strip returns the message without the secrets.
func strip(message string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) >= shortSecret {
			message = strings.ReplaceAll(message, secret, stripped)
		} else {
			message = stripWord(message, secret)
		}
	}
	return message
}

// stripWord replaces a short secret where no letter or digit is beside it.
func stripWord(message, secret string) string {
	var out strings.Builder
	for rest := message; ; {
		at := strings.Index(rest, secret)
		if at < 0 {
			return out.String() + rest
		}
		end := at + len(secret)
		before, _ := utf8.DecodeLastRuneInString(message[:len(message)-len(rest)+at])
		after, _ := utf8.DecodeRuneInString(rest[end:])
		out.WriteString(rest[:at])
		if part(before) || part(after) {
			out.WriteString(secret)
		} else {
			out.WriteString(stripped)
		}
		rest = rest[end:]
	}
}

// part reports whether the rune is a part of a word. There is none at the ends of a text.
func part(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

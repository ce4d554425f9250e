package dns

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":             "servers [] searches [] options []",
		" \t\n\r\n":    "servers [] searches [] options []",
		"nameserver 1": "servers [1] searches [] options []",
		"nameserver 1.2.3.4\nnameserver\tfe80::1%eth0 \r\n nameserver 5 6\n":           "servers [1.2.3.4 fe80::1%eth0 5] searches [] options []",
		"#nameserver 1\n  # nameserver 2\n; nameserver 3\n;nameserver 4\nnameserver 5": "servers [5] searches [] options []",
		"search a b\nsearch c. . d.e.\n":                                               "servers [] searches [c d.e] options []",
		"search a\nsearch\n":                                                           "servers [] searches [] options []",
		"search .":                                                                     "servers [] searches [] options []",
		"options ndots:1 rotate\noptions edns0 ndots:5 ndots:3\noptions\n":             "servers [] searches [] options [ndots:3 rotate edns0]",
		"domain a\nsortlist b\nlookup file\nNAMESERVER 1\nnameservers 2\noption x\n":   "servers [] searches [] options []",
		"# caf\xe9\nnameserver 1\n":                                                    "servers [1] searches [] options []",
	} {
		if got, err := parse(text); err != nil || shown(got) != want {
			t.Errorf("%q: %s, %v; want %s", text, shown(got), err, want)
		}
	}
}

func TestParseRejects(t *testing.T) {
	for text, want := range map[string]string{
		"nameserver":                          "line 1: nameserver has no address",
		"nameserver 1\nnameserver \t\n":       "line 2: nameserver has no address",
		"search caf\xe9":                      "line 1: not UTF-8",
		"nameserver\n\nnameserver \xff # x\n": "line 1: nameserver has no address\nline 3: not UTF-8",
	} {
		if _, err := parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}

func TestReadFileErrors(t *testing.T) {
	for path, want := range map[string]string{
		resolvConf(t, "nameserver"): "resolv.conf: line 1: nameserver has no address",
		"/dev/zero":                 "it is a device",
		t.TempDir():                 "is a directory",
		"/nowhere":                  "no such file",
	} {
		if _, err := readFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
}

// A file of many distinct words must be parsed in linear time.
func TestParseIsLinear(t *testing.T) {
	var text strings.Builder
	text.WriteString("options")
	for i := 0; text.Len() < 1<<20; i++ {
		text.WriteString(" ")
		for n := i; ; n /= 64 {
			text.WriteByte(byte('<' + n%64))
			if n < 64 {
				break
			}
		}
	}
	if _, err := parse(text.String()); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "nameserver 1.2.3.4\nnameserver fe80::1%eth0", "search a. b .\nsearch c\n", "options ndots:5 rotate\noptions ndots:1",
		"nameserver\r\n", "# c\n;d", "\xff", "search \u00a0\x00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		config, err := parse(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") {
				t.Error(err)
			}
			return
		}
		options := map[string]bool{}
		for _, o := range config.GetOptions() {
			name, _, _ := strings.Cut(o, ":")
			if options[name] {
				t.Errorf("%s occurs twice", name)
			}
			options[name] = true
		}
		for _, list := range [][]string{config.GetServers(), config.GetSearches(), config.GetOptions()} {
			for _, word := range list {
				// Other text could become a separate line in the pod's file.
				if !utf8.ValidString(word) || len(strings.Fields(word)) > 1 || !strings.Contains(text, word) {
					t.Errorf("%q isn't a word of the file", word)
				}
			}
		}
		limit(config)
		if len(config.GetServers()) > maxServers || len(strings.Join(config.GetSearches(), " ")) > maxSearchLength {
			t.Errorf("beyond the limits: %s", shown(config))
		}
	})
}

package podenv

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEnvFile(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                                  {},
		"\n \t\n# all\n   # comments":       {},
		"A='1'":                             {"A": "1"},
		"A='1'\n":                           {"A": "1"},
		"   A='1'\n\t\tB='2'\nC='3'\n":      {"A": "1", "B": "2", "C": "3"},
		"# first\n\nA='1'\n  # last\nB='2'": {"A": "1", "B": "2"},
		"A='a#b'":                           {"A": "a#b"},
		"A='1' # comment\nB='2'\t#'":        {"A": "1", "B": "2"},
		"A='1'# comment":                    {"A": "1"},
		"A='1'  \t\nB='2'":                  {"A": "1", "B": "2"},
		"A='   foo bar   '":                 {"A": "   foo bar   "},
		"A=''\nB='2'":                       {"A": "", "B": "2"},
		"A=   'x'\nB= \nC='3'":              {"A": "", "B": "", "C": "3"},
		"A='foo=bar=baz'":                   {"A": "foo=bar=baz"},
		`A='$VAR-${HOME}_$ \n \\ "q" %'`:    {"A": `$VAR-${HOME}_$ \n \\ "q" %`},
		"A='one\n  two\n\n three  \n'":      {"A": "one\n  two\n\n three  \n"},
		"A='one\n# two\nB=3'\nB='2'":        {"A": "one\n# two\nB=3", "B": "2"},
		"A='中文 🌍'":                          {"A": "中文 🌍"},
		"A='1'\nA='2'":                      {"A": "2"},
		"A='1'\r\nB='2\r\n3'\r\n":           {"A": "1", "B": "2\n3"},
		"A='1'\r":                           {"A": "1"},
		"my.key-1='x'":                      {"my.key-1": "x"},
	} {
		got, err := parseEnvFile(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestEnvFileErrorsNameTheLineOnly(t *testing.T) {
	for text, want := range map[string]string{
		"SECRET='1'\nSECRET\n":                "line 2: there is no '='",
		"='SECRET'":                           "line 1: there is no name",
		"  ='SECRET'":                         "line 1: there is no name",
		"A='1'\n\nSECRET ='2'":                "line 3: there is a space",
		"A = 'SECRET'":                        "line 1: there is a space",
		"A=SECRET":                            "line 1: the value isn't in single quotes",
		"A=":                                  "line 1: the value isn't in single quotes",
		"A=\"SECRET\"":                        "line 1: the value isn't in single quotes",
		"A='SECRET''SECRET'":                  "line 1: there is something after",
		"A='SECRET'SECRET":                    "line 1: there is something after",
		`A='SECRET \'SECRET\''`:               "line 1: there is something after",
		"A='1'\nB='SECRET\nC='SECRET'\n":      "line 3: there is something after",
		"A='1'\n\nB='SECRET\nSECRET\n":        "line 3: the single quote isn't closed",
		"A='1\n2\n3'\n#\nSECRET\n":            "line 5: there is no '='",
		"A='" + strings.Repeat("SECRET", 1e5): "line 1: the single quote isn't closed",
	} {
		got, err := parseEnvFile(text)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: %v, %v; want an error with %q", text, got, err, want)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%.40q: the error contains text of the file: %v", text, err)
		}
	}
}

// TestEnvFileAsAShellReadsIt: the parser reads an accepted file like a POSIX shell.
func TestEnvFileAsAShellReadsIt(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatalf("the test compares with a shell: %v", err)
	}
	names := []string{"V1", "V2", "V3"}
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.Custom(func(t *rapid.T) string {
			if rapid.IntRange(0, 4).Draw(t, "comment") == 0 {
				return rapid.StringMatching(`[ \t]{0,3}(#[ -~]{0,9})?`).Draw(t, "text")
			}
			return fmt.Sprintf("%s%s='%s'%s",
				rapid.StringMatching(`[ \t]{0,3}`).Draw(t, "before"), rapid.SampledFrom(names).Draw(t, "name"),
				rapid.StringMatching(`[ -&(-~\n\t]{0,20}`).Draw(t, "value"),
				rapid.StringMatching(`[ \t]{0,3}|[ \t]{1,3}#[ -~]{0,9}`).Draw(t, "after"))
		})
		text := strings.Join(rapid.SliceOfN(line, 0, 6).Draw(t, "lines"), "\n")
		values, err := parseEnvFile(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var want string
		script := text + "\n"
		for _, name := range names {
			want += "<" + values[name] + ">"
			script += "printf '<%s>' \"$" + name + "\"\n"
		}
		cmd := exec.Command(sh)
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.Output()
		if err != nil || string(out) != want {
			t.Fatalf("%q is %q to the shell (%v), %q here", text, out, err, want)
		}
	})
}

func FuzzEnvFile(f *testing.F) {
	for _, text := range []string{"", "A='1'\n# c\nB='2\n3' # d\r\n", "A= '1'", "A='", "=", "A", "A =''", "\r"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parseEnvFile(text)
		for name, value := range values {
			if name == "" || strings.ContainsAny(name, "=\n") || strings.Contains(value, "'") {
				t.Errorf("%q=%q", name, value)
			}
			if !strings.Contains(strings.ReplaceAll(text, "\r\n", "\n"), value) {
				t.Errorf("the value %q isn't in the file", value)
			}
		}
		if err != nil && !strings.HasPrefix(err.Error(), "line ") {
			t.Error(err)
		}
	})
}

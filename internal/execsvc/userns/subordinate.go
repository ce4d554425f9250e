package userns

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Owner is the user to whom the files of subordinate ids give the ids of pods, as with the kubelet.
const Owner = "kubelet"

// Subordinate is the range that the files of subordinate user and group ids, /etc/subuid and /etc/subgid, give to a user. It is zero if they
// give him none, and an error if they don't give him one and the same.
func Subordinate(uids, gids, user string) (Range, error) {
	u, err := subordinate(uids, user)
	if err != nil {
		return Range{}, err
	}
	g, err := subordinate(gids, user)
	if err != nil {
		return Range{}, err
	}
	if u != g {
		return Range{}, fmt.Errorf("%s and %s don't give %s the same ids", uids, gids, user)
	}
	return u, nil
}

// subordinate is the user's range by one of the files, whose lines are user:first:number. Other users' lines are their own affair.
func subordinate(path, user string) (Range, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Range{}, nil
	}
	if err != nil {
		return Range{}, err
	}
	defer func() { _ = file.Close() }()
	var found Range
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if fields[0] != user {
			continue
		}
		r, err := parseRange(fields)
		if err == nil && found != (Range{}) {
			err = fmt.Errorf("%s has a range already; want one", user)
		}
		if err != nil {
			return Range{}, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		found = r
	}
	if err := lines.Err(); err != nil {
		return Range{}, fmt.Errorf("read %s: %w", path, err)
	}
	return found, nil
}

func parseRange(fields []string) (Range, error) {
	if len(fields) != 3 {
		return Range{}, errors.New("want user:first:number")
	}
	from, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil {
		return Range{}, fmt.Errorf("the first id: %w", err)
	}
	length, err := strconv.ParseUint(fields[2], 10, 32)
	if err != nil {
		return Range{}, fmt.Errorf("the number of ids: %w", err)
	}
	return Range{First: uint32(from), Length: uint32(length)}, nil
}

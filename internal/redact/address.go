package redact

import (
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// hostAndPort is how an address goes on after a password.
var hostAndPort = regexp.MustCompile(`^[^/?#]+:\d+(/|$)`) //nolint:gochecknoglobals // compiled once

// Address returns the address of a server or a proxy with *** in place of the
// user and the password. For example, "http://bob:pw@proxy:3128" becomes
// "http://***@proxy:3128". The address may be malformed, for example because one
// of the characters @ : / # % in the password is not percent-encoded.
func Address(address string) string {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		scheme, rest = "", address
	}
	end := len(rest)
	if u, err := url.Parse(address); err == nil && found && u.Fragment == "" {
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			end = i // a later @ is in the path or in the query
		}
	}
	if at := strings.LastIndex(rest, "@"); at >= end && hostAndPort.MatchString(rest[at+1:]) {
		end = len(rest) // a password such as 12/w looks like a port and a path
	}
	at := strings.LastIndex(rest[:end], "@")
	if at < 0 {
		return address
	}
	if found {
		scheme += "://"
	}
	return scheme + "***" + rest[at:]
}

// Addresses returns err without the users and passwords in the given addresses,
// which its text may contain. If the text contains none of them, or if err is
// nil, Addresses returns err itself.
func Addresses(err error, addresses ...string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, address := range addresses {
		plain := Address(address)
		if plain == address {
			continue
		}
		text = strings.ReplaceAll(text, address, plain)
		quoted, quotedPlain := strconv.Quote(address), strconv.Quote(plain)
		text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], quotedPlain[1:len(quotedPlain)-1])
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// ErrAddress is the error of an address that cannot be parsed and may contain a
// password. The parser's own error quotes parts of the address.
var ErrAddress = errors.New("the address cannot be read: characters such as @ : / # % in a user or a password " +
	"must be percent-encoded")

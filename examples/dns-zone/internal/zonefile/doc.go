// Package zonefile changes some records of a DNS zone file (RFC 1035, section
// 5) and keeps all other bytes unchanged:
//
//	file := zonefile.File{Path: "zone.db", Origin: "example.com."}
//	changed, err := file.Set(ctx, key, addresses)
//
//	web.shop.example.com. 60 IN A 10.96.0.7 ; managed-by=dns-zone shop/web
//	└── absolute: no $ORIGIN matters       └── the tag: whose record it is
//
// The contract:
//
//   - Readers see the whole file, either before or after a change, even if a
//     process or the machine dies. The new file is written beside the old one,
//     synced to disk and renamed.
//   - The serial of the SOA record increases by one with each change, and only
//     then. It is never lower than the one that this process has written
//     before (RFC 1982).
//   - Several processes may change the file at once. Each change is made under
//     a lock, from the contents of the file at that time.
//   - A file that cannot be parsed is not written.
//
// The package does not check foreign records, does not follow $INCLUDE, and
// cannot lock out editors. If an editor saves between our read and our rename,
// the change is noticed and repeated, except in the last microseconds.
package zonefile

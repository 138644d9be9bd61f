# shellcheck shell=sh
# zone.sh is for the other scripts: replace MARK LINE puts LINE in place of the line that ends with
# MARK, at the end if there is none; without LINE, the line goes.
replace() {
	file=${ZONE:-zone.db}
	next=$(mktemp "$file.XXXXXX")
	trap 'rm -f "$next"' EXIT
	MARK=$1 LINE=$2 awk '
		{ i = index($0, ENVIRON["MARK"]) }
		i > 0 && i + length(ENVIRON["MARK"]) - 1 == length($0) {
			if (ENVIRON["LINE"] != "" && !done) print ENVIRON["LINE"]
			done = 1
			next
		}
		{ print }
		END { if (ENVIRON["LINE"] != "" && !done) print ENVIRON["LINE"] }
	' "$file" > "$next"
	if cmp -s "$file" "$next"; then return 0; fi
	awk '/; serial/ && !grown { grown = 1; match($0, /[0-9]+/)
		$0 = substr($0, 1, RSTART - 1) (substr($0, RSTART, RLENGTH) + 1) substr($0, RSTART + RLENGTH) }
		{ print }' "$next" > "$next.grown"
	chmod 644 "$next.grown"
	mv "$next.grown" "$file" # a name server reads the old file or the new one
}

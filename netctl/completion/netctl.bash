# bash completion of netctl
_netctl() {
	local words line
	# Bash takes a word apart at colons and equal signs; netctl wants it whole.
	read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
	[[ ${COMP_LINE:0:COMP_POINT} =~ [[:space:]]$ ]] && words+=("")
	local current=${words[${#words[@]}-1]}
	local joined=${current%"${current##*[:=]}"}
	COMPREPLY=()
	while IFS=$'\t' read -r line _; do
		COMPREPLY+=("${line#"$joined"}")
	done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
	if [[ ${COMPREPLY[0]} == :files ]]; then
		COMPREPLY=()
		compopt -o default
	elif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
		compopt -o nospace
	fi
	return 0
}
complete -F _netctl netctl
